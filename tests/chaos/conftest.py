from tests.harbour.fixtures import harbour, make_harbour

__all__ = ["harbour", "make_harbour"]
