from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.settings import SettingsError, load_settings
from app.store import make_engine, upgrade
from tests.harbour.harbour import Harbour
from workers.services import build_services, find_template, open_database


def test_without_an_app_nothing_is_built(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        build_services(load_settings(None, {"DRYDOCK_STATE_DIR": str(tmp_path)}))
    assert "DRYDOCK_APP_ID is not set" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_without_redis_the_queue_says_what_to_set(harbour: Harbour) -> None:
    settings = harbour.settings.model_copy(update={"redis_url": None})
    with pytest.raises(SettingsError, match="`drydock up` starts a private Redis"):
        _ = replace(harbour.services, settings=settings).redis_url


def test_a_template_that_is_not_baked_is_named_with_its_command(tmp_path: Path) -> None:
    settings = load_settings(None, {"DRYDOCK_STATE_DIR": str(tmp_path)})
    with pytest.raises(SettingsError, match="drydock template bake default"):
        find_template(settings)


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/d", "sqlite://", "postgresql://u:hunter2@127.0.0.1:1/d"]
)
def test_a_database_that_cannot_be_had_is_said_without_its_password(url: str) -> None:
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg")
    with pytest.raises(SettingsError) as caught:
        open_database(load_settings(None, {"DRYDOCK_DATABASE_URL": url}))
    assert "hunter2" not in str(caught.value)


def test_a_database_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    engine = make_engine(url)
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    with pytest.raises(SettingsError, match="newer version of Drydock"):
        open_database(load_settings(None, {"DRYDOCK_DATABASE_URL": url}))


def test_who_the_app_is_is_asked_once(harbour: Harbour) -> None:
    services = harbour.make_services()
    assert services.bot_login == services.bot_login == "drydock[bot]"
    assert len(harbour.github.recorder.calls("GET", "/app")) <= 2
