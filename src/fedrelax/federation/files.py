"""The files of a new federation: a ready-made Flower app, the hub's settings, and a folder for every site.

app/            the Flower app, which `flwr run` hands to the hub
hub/hub.toml    the sites, the method, how long to wait
sites/NAME/     one folder per site, to be moved to its machine: site.toml, its keys, its rows
certificates/   the hub's; ca.crt goes to every site, ca.key signs new ones and stays with the hub

A site's auth.key proves to the hub that a machine is this site; its site.key seals what it sends to other
sites, who pin the public half. Whoever runs a site makes both there and hands out the public halves only.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.federation.boxes import new_key, public_of, read_key, warn_if_readable
from fedrelax.federation.settings import read_values, site_of
from fedrelax.files import dump_toml, why_unread, write_whole
from fedrelax.storage.places import advice_for

HOST = re.compile(r"[A-Za-z0-9*]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
"""A host name, as certificates hold it."""
AUTHORITY = "fedrelax federation"
"""The name of who signs certificates."""
YEARS = 2
"""How long certificates are valid."""


def make_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """Make an authority, and a certificate for the hub with these host names and addresses."""
    need("cryptography", "flower")
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    check_certificates(folder)
    authority, hub = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    signer = authority.public_key()
    extensions = [
        x509.SubjectAlternativeName([_host(host) for host in hosts]),
        x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer),
    ]
    own = [x509.SubjectKeyIdentifier.from_public_key(signer)]
    made = {
        "ca": (authority, _certificate(AUTHORITY, authority, authority, own)),
        "hub": (hub, _certificate(hosts[0], hub, authority, extensions)),
    }
    pem, plain = form.Encoding.PEM, form.NoEncryption()
    with _on_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for stem, (key, certificate) in made.items():
            (folder / f"{stem}.crt").write_bytes(certificate.public_bytes(pem))
            secret = key.private_bytes(pem, form.PrivateFormat.PKCS8, plain)
            write_whole(folder / f"{stem}.key", secret)


def check_certificates(folder: Path) -> None:
    """Refuse to replace certificates."""
    if os.path.lexists(folder / "ca.key"):
        raise FedRelaxError(
            f"{folder} already has certificates; move them elsewhere to make new ones"
        )


def make_site_keys(folder: Path) -> str:
    """Make a site's two keys, unless they exist; return the public key that others pin."""
    need("cryptography", "flower")
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    with _on_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(folder / "auth.key"):
            key = ec.generate_private_key(ec.SECP384R1())
            private = key.private_bytes(
                form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()
            )
            public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
            write_whole(folder / "auth.key", private)
            (folder / "auth.pub").write_bytes(public + b"\n")
        if not os.path.lexists(folder / "site.key"):
            write_whole(folder / "site.key", new_key().encode() + b"\n")
        warn_if_readable(folder / "auth.key")
        public_key = public_of(read_key(folder / "site.key", folder.name))
        (folder / "site.pub").write_bytes(public_key.encode() + b"\n")
    return public_key


@contextmanager
def _on_disk(folder: Path) -> Iterator[None]:
    """Turn an error of the disk into a sentence."""
    try:
        yield
    except OSError as error:
        raise FedRelaxError(
            f"{error.filename or folder} cannot be written ({why_unread(error)}); "
            f"{advice_for(error, folder)}"
        ) from error


def _host(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not HOST.fullmatch(host):
            raise FedRelaxError(
                f"host={host!r} must be a name such as hub.example.org, or an address such as 10.0.0.1"
            ) from None
        return x509.DNSName(host)


def _certificate(subject: str, key: Any, signer: Any, extensions: Sequence[Any]) -> Any:
    """Return a certificate from the authority; its own may sign others, and nothing else."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA384

    signs, now = key is signer, datetime.datetime.now(datetime.UTC)
    issuer, owner = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
        for name in (AUTHORITY, subject)
    )
    # The hub signs data, the authority certificates and their revocation; neither does anything else.
    usage = x509.KeyUsage(not signs, False, False, False, False, signs, signs, False, False)
    builder = x509.CertificateBuilder(
        issuer,
        owner,
        key.public_key(),
        x509.random_serial_number(),
        now - datetime.timedelta(minutes=5),
        now + datetime.timedelta(days=365 * YEARS),
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    for extension in (x509.BasicConstraints(signs, 0 if signs else None), usage):
        builder = builder.add_extension(extension, critical=True)
    return builder.sign(signer, SHA384())


APP_TOML = "app.toml"
"""The ``pyproject.toml`` of the Flower app, but for its last line, which names the hub's file."""
APP = '''\
"""{what} of the federation."""

from fedrelax.federation.flower import {name}

app = {name}()
'''
HUB_COMMENT = """\
The hub of a federation; see docs/federation.md.
alpha: a number, a list to choose among, or "auto". wait: seconds to wait for the answers of a round."""
SITE_COMMENT = """\
A site of a federation. This file and the rows stay on the site's machine.
data, target, features: the table and its columns. model: see fedrelax fit --help.
neighbours: the sites it hears, with weights. keys: their public keys; nobody else can speak for them."""


def write_federation(
    home: Path,
    names: Sequence[str],
    target: str,
    task: str,
    models: Sequence[str],
    hub: Mapping[str, Any],
) -> None:
    """Write all files but keys and rows; all sites are neighbours with weight 1, and models go in turn."""
    if len(names) < 2:
        raise FedRelaxError(
            f"a federation of {len(names)} has no neighbours; name at least two sites"
        )
    check_distinct(names, "sites")
    taken = home.exists() and not (home.is_dir() and not any(home.iterdir()))
    if taken or home.is_symlink():
        raise FedRelaxError(f"{home} exists and is not empty; choose another directory")
    hub_file = json.dumps(str(home.absolute() / "hub" / "hub.toml"), ensure_ascii=False)
    shared = {"sites": list(names), "folder": "state", "out": "result", "target": target, **hub}
    app = resources.files("fedrelax.federation").joinpath(APP_TOML).read_text("utf-8")
    files = {
        "app/fedrelax_app/__init__.py": '"""A federation on Flower."""\n',
        "app/fedrelax_app/server_app.py": APP.format(what="The hub", name="server_app"),
        "app/fedrelax_app/client_app.py": APP.format(what="A site", name="client_app"),
        "app/pyproject.toml": f"{app}hub = {hub_file}\n",
        "hub/hub.toml": dump_toml(shared, HUB_COMMENT),
    }
    for number, name in enumerate(names):
        own = {
            "name": name,
            "data": "rows.csv",
            "target": target,
            "task": task,
            "model": models[number % len(models)],
            "key": "site.key",
            "folder": "state",
            "neighbours": {other: 1.0 for other in names if other != name},
            "keys": {},
        }
        site_of(own, home, f"site {name!r}")
        files[f"sites/{name}/site.toml"] = dump_toml(own, SITE_COMMENT)
    with _on_disk(home):
        for path, text in files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text, encoding="utf-8")


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
    sites = {path: site_of(v, path.parent, str(path)) for path, v in said.items()}
    check_distinct([site.name for site in sites.values()], str(home / "sites"))
    check_certificates(home / "certificates")
    public = {site.name: make_site_keys(path.parent) for path, site in sites.items()}
    make_certificates(home / "certificates", hosts)
    for path, site in sites.items():
        pinned = {name: key for name, key in public.items() if name in site.neighbours}
        text = dump_toml({**said[path], "keys": pinned}, SITE_COMMENT)
        write_whole(path, text.encode())
    return sorted(public)
