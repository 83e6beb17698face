"""Keys and certificates: an authority for TLS, the keys by which Flower knows sites, and the sites' own.

=====================  ===================================================================
certificates/ca.crt    goes to every site, which knows the true hub by it
certificates/ca.key    stays with whoever runs the hub; signs new certificates
certificates/hub.*     the hub's own certificate and key
sites/NAME/auth.key    proves to the hub that a machine is this site; auth.pub is registered there
sites/NAME/site.key    seals what the site sends to other sites; its public half is pinned by them
=====================  ===================================================================

Whoever runs a site makes its two keys there and hands out the public halves only.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.federation.boxes import new_key, public_of, read_key, warn_if_readable
from fedrelax.files import why_unread
from fedrelax.storage.places import advice_for

HOST = re.compile(r"[A-Za-z0-9*]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
"""A host name, as certificates hold it."""
YEARS = 2
"""How long certificates are valid."""


def make_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """Make an authority, and a certificate for the hub with these host names and addresses."""
    need("cryptography", "flower")
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    check_certificates(folder)
    addresses = [_host(host) for host in hosts]
    authority, hub = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    name, signer = "fedrelax federation", authority.public_key()
    ca = _certificate(
        name, signer, name, authority, [x509.SubjectKeyIdentifier.from_public_key(signer)]
    )
    extensions = [
        x509.SubjectAlternativeName(addresses),
        x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer),
    ]
    own = _certificate(hosts[0], hub.public_key(), name, authority, extensions)
    pem, plain = form.Encoding.PEM, form.NoEncryption()
    with _on_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for stem, certificate, key in (("ca", ca, authority), ("hub", own, hub)):
            _write(folder / f"{stem}.crt", certificate.public_bytes(pem), private=False)
            secret = key.private_bytes(pem, form.PrivateFormat.PKCS8, plain)
            _write(folder / f"{stem}.key", secret)


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
            _write(folder / "auth.key", private)
            _write(folder / "auth.pub", public + b"\n", private=False)
        if not os.path.lexists(folder / "site.key"):
            _write(folder / "site.key", new_key().encode() + b"\n")
        warn_if_readable(folder / "auth.key")
        public_key = public_of(read_key(folder / "site.key", folder.name))
        _write(folder / "site.pub", public_key.encode() + b"\n", private=False)
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


def _write(path: Path, data: bytes, private: bool = True) -> None:
    """Write a file that, if it is private, only its owner can read, from its first byte on."""
    path.unlink(missing_ok=True)
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644), "wb"
    ) as f:
        f.write(data)


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


def _certificate(
    subject: str, public: Any, issuer: str, signer: Any, extensions: Sequence[Any]
) -> Any:
    """Return a certificate; one that is its own issuer may sign others, and nothing else."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA384

    signs, now = subject == issuer, datetime.datetime.now(datetime.UTC)
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
        for name in (subject, issuer)
    ]
    usage = x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
    limits = x509.BasicConstraints(ca=signs, path_length=0 if signs else None)
    builder = x509.CertificateBuilder(*names[::-1], public, x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(minutes=5))
    builder = builder.not_valid_after(now + datetime.timedelta(days=365 * YEARS))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    for extension in (limits, usage):
        builder = builder.add_extension(extension, critical=True)
    return builder.sign(signer, SHA384())
