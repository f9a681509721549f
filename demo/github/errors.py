"""What GitHub answers when it will not: a status, a message, and for 422 a list of errors.

The wording is GitHub's own, because clients match on it. See
https://docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DOCS = "https://docs.github.com/rest"


class ApiError(Exception):
    """An answer other than success, to be written as GitHub's error JSON."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: Sequence[Mapping[str, Any] | str] | None = None,
        documentation_url: str = DOCS,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        self.errors = errors
        self.documentation_url = documentation_url
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"message": self.message}
        if self.errors is not None:
            body["errors"] = [
                error if isinstance(error, str) else dict(error) for error in self.errors
            ]
        body["documentation_url"] = self.documentation_url
        body["status"] = str(self.status)
        return body


def bad_credentials() -> ApiError:
    return ApiError(401, "Bad credentials")


def requires_authentication() -> ApiError:
    return ApiError(401, "Requires authentication")


def not_found() -> ApiError:
    return ApiError(404, "Not Found")


def not_accessible() -> ApiError:
    """The token lives and sees the repository, but lacks the permission."""
    return ApiError(403, "Resource not accessible by integration")


def invalid_request(reason: str) -> ApiError:
    """The body does not have the shape that the endpoint documents."""
    return ApiError(422, f"Invalid request.\n\n{reason}")


def validation_failed(*errors: Mapping[str, Any] | str) -> ApiError:
    return ApiError(422, "Validation Failed", errors=errors)


def invalid_field(resource: str, field: str, code: str = "invalid", value: Any = None) -> ApiError:
    error = {"resource": resource, "field": field, "code": code}
    return validation_failed(error if value is None else {"value": value, **error})


def custom_error(resource: str, message: str, field: str | None = None) -> ApiError:
    error = {"resource": resource, "code": "custom", "message": message}
    return validation_failed(error if field is None else {**error, "field": field})


def unprocessable(*reasons: str) -> ApiError:
    """How the reviews endpoints refuse: a list of sentences."""
    return ApiError(422, "Unprocessable Entity", errors=reasons)
