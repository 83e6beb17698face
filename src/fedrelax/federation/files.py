"""The files of a new federation: a ready-made Flower app, the hub's settings, and a folder for every site.

app/            the Flower app, which `flwr run` hands to the hub
hub/hub.toml    the sites, the method, how long to wait
sites/NAME/     one folder per site, to be moved to its machine: site.toml, its keys, its rows
certificates/   the hub's; ca.crt goes to every site
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.federation.keys import make_certificates, make_site_keys
from fedrelax.federation.sitefile import check_name
from fedrelax.storage.toml import dump_toml

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "fedrelax-federation"
version = "1.0.0"
description = "Every site keeps its rows and its model, and learns from its neighbours' predictions."
license = "Apache-2.0"
dependencies = ["fedrelax[flower]"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "fedrelax"

[tool.flwr.app.components]
serverapp = "fedrelax_app.server_app:app"
clientapp = "fedrelax_app.client_app:app"

[tool.flwr.app.config]
hub = {hub}
sites = {sites}
"""
SERVER = '''\
"""The hub of the federation."""

from fedrelax.federation.flower import server_app

app = server_app()
'''
CLIENT = '''\
"""A site of the federation."""

from fedrelax.federation.flower import client_app

app = client_app()
'''
HUB_COMMENT = """\
The hub of a federation; see docs/federation.md.
alpha: a number, a list to choose among, or "auto". wait: seconds to wait for the answers of a round.
staleness: rounds for which the others keep using the last predictions of a silent site."""
SITE_COMMENT = """\
A site of a federation. This file and the rows stay on the site's machine.
data, target, features: the table and its columns. model: see fedrelax fit --help.
neighbours: the sites it hears, with weights. keys: their public keys; nobody else can speak for them."""


def write_federation(
    home: Path,
    names: Sequence[str],
    *,
    site: Mapping[str, Any],
    models: Mapping[str, str],
    hub: Mapping[str, Any],
    open_: bool = False,
) -> None:
    """Write all files but keys and rows; all sites are neighbours with weight 1."""
    if len(names) < 2:
        raise FedRelaxError(
            f"a federation of {len(names)} has no neighbours; name at least two sites"
        )
    for name in names:
        check_name(name, "sites")
    if home.exists() and any(home.iterdir()):
        raise FedRelaxError(f"{home} exists and is not empty; choose another directory")
    app = home / "app" / "fedrelax_app"
    app.mkdir(parents=True)
    (app / "__init__.py").write_text('"""A federation on Flower."""\n')
    (app / "server_app.py").write_text(SERVER)
    (app / "client_app.py").write_text(CLIENT)
    settings = home.absolute() / "hub" / "hub.toml"
    values = {"hub": _text(settings), "sites": _text(home.absolute() / "sites")}
    (home / "app" / "pyproject.toml").write_text(PYPROJECT.format(**values))
    settings.parent.mkdir()
    said = {"sites": list(names), "open": open_, "folder": "state", "out": "result", **hub}
    settings.write_text(dump_toml(said, HUB_COMMENT), encoding="utf-8")
    for name in names:
        folder = home / "sites" / name
        folder.mkdir(parents=True)
        own = {
            "name": name,
            "data": "rows.csv",
            **site,
            "model": models[name],
            "open": open_,
            "key": "site.key",
            "folder": "state",
            "neighbours": {other: 1.0 for other in names if other != name},
            "keys": {},
        }
        (folder / "site.toml").write_text(dump_toml(own, SITE_COMMENT), encoding="utf-8")


def write_keys(home: Path, hosts: Sequence[str]) -> list[str]:
    """Make certificates and the keys of all sites, pin every neighbour's key, and return the names."""
    files = sorted((home / "sites").glob("*/site.toml"))
    if not files:
        raise FedRelaxError(f"{home} holds no sites; fedrelax federate init {home} makes them")
    make_certificates(home / "certificates", hosts)
    said = {path: tomllib.loads(path.read_text(encoding="utf-8")) for path in files}
    public = {values["name"]: make_site_keys(path.parent) for path, values in said.items()}
    for path, values in said.items():
        near = values.get("neighbours", {})
        values["keys"] = {name: key for name, key in public.items() if name in near}
        path.write_text(dump_toml(values, SITE_COMMENT), encoding="utf-8")
    return sorted(public)


def _text(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def flower_config(address: str, ca: Path | None) -> str:
    """Return the file that tells ``flwr`` where the hub is; without ``ca``, it connects without TLS."""
    trust = "insecure = true" if ca is None else f"root-certificates = {_text(ca)}"
    return f'[superlink]\ndefault = "hub"\n\n[superlink.hub]\naddress = "{address}"\n{trust}\n'
