"""Boxes from site to site: public rows before the first round, then the predictions of every lane.

A box is sealed, so that the hub relays what it cannot read. Every site has a long-lived X25519 key pair,
and its file pins the public keys of the sites that it hears. For a run and a direction, sender ->
receiver, the cipher's key is

    HKDF-SHA256(X25519(own private, their public), salt = run id,
                info = sender, receiver, sender's nonce, receiver's nonce)

with nonces that both draw afresh for every run: a box from another run cannot be opened. The box is
ChaCha20-Poly1305 with run, sender, receiver and round as associated data: a box from another round, or
one meant for somebody else, cannot be opened either.

Predictions are one ``.npy`` array with a line per lane: its number, and the predictions on m public rows
by k outputs. That takes ``128 + 8 (1 + m k)`` bytes for one lane; the seal adds 28.
"""

from __future__ import annotations

import base64
import json
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedrelax.errors import FedRelaxError, FedRelaxWarning
from fedrelax.extras import need
from fedrelax.files import KEY, Refused, from_npy, read_text, to_npy, why_unread
from fedrelax.typing import FloatArray

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

NPY_HEADER = 128
"""Bytes that numpy writes before the numbers of an array of few dimensions."""
LENGTH = 8
"""Bytes in which the length of a table is written."""
NONCE, TAG = 12, 16
"""Bytes that sealing adds: the cipher's own nonce and its authentication tag."""

Predictions = Mapping[int, Sequence[FloatArray]]
"""By lane: predictions on the sender's public rows and, for GTVMin, on the receiver's."""


# Predictions


def box_bytes(lanes: int, rows: int, outputs: int) -> int:
    """Return the size of a box of predictions on one set of public rows.

    >>> box_bytes(lanes=1, rows=100, outputs=1)
    964
    """
    return NONCE + TAG + NPY_HEADER + 8 * lanes * (1 + rows * outputs)


def write_predictions(predictions: Predictions) -> bytes:
    """Return predictions as bytes."""
    lines = [[lane, *np.concatenate(sets).ravel()] for lane, sets in predictions.items()]
    return to_npy(np.array(lines, dtype=float))


def read_predictions(
    content: bytes, rows: Sequence[int], outputs: int, lanes: Collection[int]
) -> Predictions:
    """Return the predictions in a box; ``rows`` gives the size of each set of public rows.

    The whole box is refused if anything in it is of an unknown lane or another shape, or not finite.
    """
    table = from_npy(content, "what it holds", finite=True)
    if table.ndim != 2 or table.shape[1] != 1 + sum(rows) * outputs:
        raise Refused(f"predictions have another shape than {sum(rows)} rows by {outputs}")
    numbers = table[:, 0].tolist()
    if len(set(numbers)) < len(numbers) or not set(numbers) <= set(lanes):
        raise Refused(f"predictions of lanes {numbers} were not asked for, or came twice")
    ends = np.cumsum(rows)[:-1]
    return {
        int(lane): np.split(line.reshape(-1, outputs), ends)
        for lane, line in zip(numbers, table[:, 1:], strict=True)
    }


def write_tables(tables: Sequence[Predictions]) -> bytes:
    """Return several tables of numbers as bytes: of each its length, and its lines that are finite."""
    content = b""
    for table in tables:
        finite = {k: sets for k, sets in table.items() if all(np.isfinite(s).all() for s in sets)}
        part = write_predictions(finite) if finite else b""
        content += len(part).to_bytes(LENGTH, "big") + part
    return content


def read_tables(content: bytes, shapes: Sequence[tuple[Sequence[int], int]]) -> list[Predictions]:
    """Return the tables in a box, given the sizes of each one's sets, and how many lines it may have."""
    tables = list[Predictions]()
    for sizes, lanes in shapes:
        end = LENGTH + int.from_bytes(content[:LENGTH], "big")
        if not LENGTH <= len(content) >= end:
            raise Refused("a table in it is cut off")
        part, content = content[LENGTH:end], content[end:]
        tables.append(read_predictions(part, sizes, 1, range(lanes)) if part else {})
    if content:
        raise Refused("there is more in it than the tables")
    return tables


# Keys


def new_key() -> str:
    """Return a new private key as text."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return base64.b64encode(X25519PrivateKey.generate().private_bytes_raw()).decode()


def public_of(private: str) -> str:
    """Return the public key that belongs to a private one, as text."""
    return base64.b64encode(_private(private).public_key().public_bytes_raw()).decode()


def read_key(path: Path, name: str) -> str:
    """Return a site's private key from its file."""
    try:
        text = read_text(path, KEY, "ascii").strip()
        _private(text)
    except (OSError, UnicodeDecodeError) as error:
        raise FedRelaxError(
            f"site {name!r}: its key {path} cannot be read ({why_unread(error)}); make one with fedrelax "
            "federate keys"
        ) from error
    except FedRelaxError as error:
        raise FedRelaxError(f"site {name!r}: its key {path} cannot be used: {error}") from None
    warn_if_readable(path)
    return text


def warn_if_readable(path: Path) -> None:
    """Warn of a private key that others on this machine can read, where systems have such modes."""
    if os.name == "posix" and path.exists() and path.stat().st_mode & 0o077:
        warnings.warn(
            f"the private key {path} can be read by other users of this machine; run chmod 600 {path}",
            FedRelaxWarning,
            stacklevel=2,
        )


def key_bytes(text: str, what: str) -> bytes:
    """Return the bytes of a key, or refuse text that is none; ``what`` names it in the message."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise FedRelaxError(
            f"the key {what} is not 32 bytes in base64; copy it from the file that fedrelax federate "
            "keys wrote"
        )
    return raw


def _private(text: str) -> X25519PrivateKey:
    need("cryptography", "flower")
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(key_bytes(text, "of this site"))


# Closing and opening


@dataclass(frozen=True)
class Address:
    """What a box is bound to."""

    run: str
    sender: str
    receiver: str
    round: int

    @property
    def bound(self) -> bytes:
        """The address as unambiguous bytes."""
        return json.dumps([self.run, self.sender, self.receiver, self.round]).encode()


@dataclass(frozen=True)
class SealedChannel:
    """Boxes that only their receiver can open.

    ``keys`` are the pinned public keys of other sites, ``nonces`` those that sites drew for this run.
    """

    private: str
    keys: dict[str, str]
    nonces: dict[str, str]

    def close(self, content: bytes, address: Address) -> bytes:
        """Return a sealed box with this content."""
        nonce = os.urandom(NONCE)
        cipher = self._cipher(address, address.receiver)
        return bytes(nonce + cipher.encrypt(nonce, content, address.bound))

    def open(self, box: bytes, address: Address) -> bytes:
        """Return the content of a box, or refuse one that its sender did not seal for this address."""
        from cryptography.exceptions import InvalidTag

        if len(box) < NONCE + TAG:
            raise Refused("the box is missing or truncated")
        cipher = self._cipher(address, address.sender)
        try:
            return bytes(cipher.decrypt(box[:NONCE], box[NONCE:], address.bound))
        except InvalidTag as error:
            raise Refused(
                "the seal does not fit: the box is from another run or round, was changed, or was sealed "
                "with a key other than the pinned one"
            ) from error

    def _cipher(self, address: Address, other: str) -> ChaCha20Poly1305:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        if other not in self.keys:
            raise Refused(f"no key of site {other!r} is pinned")
        theirs = key_bytes(self.keys[other], f"of site {other!r}")
        try:
            secret = _private(self.private).exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError as error:
            raise Refused(f"the key of site {other!r} is not usable") from error
        info = ["fedrelax", address.sender, address.receiver]
        info += [self.nonces.get(name, "") for name in (address.sender, address.receiver)]
        kdf = HKDF(SHA256(), 32, address.run.encode(), json.dumps(info).encode())
        return ChaCha20Poly1305(kdf.derive(secret))
