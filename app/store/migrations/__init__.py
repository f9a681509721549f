"""Alembic's migrations; `app.store.schema.upgrade` applies them."""
