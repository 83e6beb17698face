"""The files of a new federation: a ready-made Flower app, the hub's settings, and a folder for every site.

app/            the Flower app, which `flwr run` hands to the hub
hub/hub.toml    the sites, the method, how long to wait
sites/NAME/     one folder per site, to be moved to its machine: site.toml, its keys, its rows
certificates/   the hub's; ca.crt goes to every site
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.federation.keys import check_certificates, make_certificates, make_site_keys
from fedrelax.federation.settings import check_name, read_values, site_of
from fedrelax.files import dump_toml, why_unread, write_whole
from fedrelax.storage.places import advice_for

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
    check_distinct(names, "sites")
    taken = home.exists() and not (home.is_dir() and not any(home.iterdir()))
    if taken or home.is_symlink():
        raise FedRelaxError(f"{home} exists and is not empty; choose another directory")
    values = {
        "hub": _text(home.absolute() / "hub" / "hub.toml"),
        "sites": _text(home.absolute() / "sites"),
    }
    shared = {"sites": list(names), "open": open_, "folder": "state", "out": "result", **hub}
    files = {
        "app/fedrelax_app/__init__.py": '"""A federation on Flower."""\n',
        "app/fedrelax_app/server_app.py": SERVER,
        "app/fedrelax_app/client_app.py": CLIENT,
        "app/pyproject.toml": PYPROJECT.format(**values),
        "hub/hub.toml": dump_toml(shared, HUB_COMMENT),
    }
    for name in names:
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
        site_of(own | {"open": True}, home, f"site {name!r}")  # its keys come later
        files[f"sites/{name}/site.toml"] = dump_toml(own, SITE_COMMENT)
    new = not home.exists()
    try:
        for path, text in files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text, encoding="utf-8")
    except OSError as error:
        for place in [home] if new else list(home.iterdir()):
            shutil.rmtree(place, ignore_errors=True)
        raise FedRelaxError(
            f"{home} cannot be written ({why_unread(error)}), and nothing of it was left; "
            f"{advice_for(error, home.absolute().parent)}"
        ) from error


def check_distinct(names: Sequence[str], source: str) -> None:
    """Refuse two sites of one name; names are directories, and some systems ignore their case."""
    folded = [name.casefold() for name in names]
    twice = [name for k, name in enumerate(names) if folded[k] in folded[:k]]
    if twice:
        raise FedRelaxError(f"{source}: two sites are called {twice[0]!r}; give each its own name")


def write_keys(home: Path, hosts: Sequence[str]) -> list[str]:
    """Make certificates and the keys of all sites, pin every neighbour's key, and return the names."""
    files = [path / "site.toml" for path in sorted((home / "sites").glob("*"))]
    files = [path for path in files if os.path.lexists(path)]
    if not files:
        raise FedRelaxError(f"{home} holds no sites; fedrelax federate init {home} makes them")
    said = {path: read_values(path, "site") for path in files}
    sites = {path: site_of(v | {"open": True}, path.parent, str(path)) for path, v in said.items()}
    check_distinct([site.name for site in sites.values()], str(home / "sites"))
    check_certificates(home / "certificates")
    public = {site.name: make_site_keys(path.parent) for path, site in sites.items()}
    make_certificates(home / "certificates", hosts)
    for path, site in sites.items():
        pinned = {name: key for name, key in public.items() if name in site.neighbours}
        text = dump_toml({**said[path], "keys": pinned}, SITE_COMMENT)
        write_whole(path, text.encode())
    return sorted(public)


def _text(path: Path) -> str:
    return json.dumps(str(path), ensure_ascii=False)


def flower_config(address: str, ca: Path | None) -> str:
    """Return the file that tells ``flwr`` where the hub is; without ``ca``, it connects without TLS."""
    trust = "insecure = true" if ca is None else f"root-certificates = {_text(ca)}"
    return f'[superlink]\ndefault = "hub"\n\n[superlink.hub]\naddress = "{address}"\n{trust}\n'
