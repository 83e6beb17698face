"""Models on disk, written and read by skops: nothing is ever unpickled.

A skops file names the types that it is made of, and loading creates objects of these types only. Those
of ``storage.types`` are trusted. Whatever else a file names is refused until the user trusts it by
name. What is loaded is not the file itself but its contents, once read and checked.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fedrelax.errors import FedRelaxError, named
from fedrelax.models.archive import array_member, closed, json_member, opened
from fedrelax.storage.insides import check_insides
from fedrelax.storage.library import skops_io
from fedrelax.storage.trees import check_tree, damaged
from fedrelax.storage.types import GENERATORS, LOADERS, TYPES, UNCHECKED
from fedrelax.typing import Label

SCHEMA = "schema.json"
FIRST_PROTOCOL = 1
"""Before this version, skops named functions in another way."""

State = dict[str, Any]


@dataclass(frozen=True)
class Contents:
    """The contents of a skops file: the description of its objects, and its arrays by name."""

    schema: State
    members: dict[str, bytes]

    def states(self) -> list[State]:
        """Return the description of every object in the file."""
        return list(_states(self.schema))

    def data(self) -> bytes:
        """Return a skops file with these contents and nothing else."""
        text = json.dumps(self.schema).encode()
        return closed({**self.members, SCHEMA: text})


def to_bytes(model: Any) -> bytes:
    """Return a model as the bytes of a skops file."""
    return bytes(skops_io().dumps(model, compression=zipfile.ZIP_DEFLATED))


def from_bytes(data: bytes, trust: Sequence[str]) -> Any:
    """Return the model in a skops file; types that are neither listed nor in ``trust`` are refused."""
    contents = _read(data)
    refused = [name for name in _untrusted(contents) if name not in trust]
    if refused:
        raise FedRelaxError(f"its types are not trusted: {', '.join(refused)}")
    for state in contents.states():
        _check_state(state, contents.members)
    model = skops_io().loads(contents.data(), trusted=[*TYPES, *trust])
    check_insides(model)
    return model


def types_in(data: bytes) -> list[str]:
    """Return the types in a skops file that a user has to trust by name."""
    return _untrusted(_read(data))


def refusal(labels: Collection[Label], types: Iterable[str]) -> str:
    """Return the sentence that refuses types which the user has not trusted."""
    names = sorted(set(types))
    return (
        f"the model of {named('node', labels, most=3)} is made of types that are not trusted: "
        f"{', '.join(names)}; if you know who wrote this result and trust these packages, say so "
        f"with trust={names!r}"
    )


def _read(data: bytes) -> Contents:
    """Read a skops file.

    The numbers by which it says that two objects are the same are dropped: with them a file could show
    one description to a check and another to the loader.
    """
    members = opened(data)
    schema = json_member(members, SCHEMA)
    protocol = schema.get("protocol")
    if isinstance(protocol, bool) or not isinstance(protocol, int) or protocol < FIRST_PROTOCOL:
        raise FedRelaxError(f"its skops file has the protocol {protocol!r}, which is not supported")
    for state in _states(schema):
        state.pop("__id__", None)
    return Contents(schema, members)


def _states(value: Any) -> Iterator[State]:
    """Yield every description of an object, at whatever depth."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "__loader__" in part or "__class__" in part or "__id__" in part:
                yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _untrusted(contents: Contents) -> list[str]:
    """Return the names that neither skops nor our list trusts, or that come with another loader."""
    untrusted = skops_io().get_untrusted_types(data=contents.data())
    found = {name for name in untrusted if name not in TYPES}
    for state in contents.states():
        loader, name = state.get("__loader__"), _name(state)
        if loader not in LOADERS or TYPES.get(name, loader) != loader or name in UNCHECKED:
            found.add(name)
    return sorted(found)


def _name(state: State) -> str:
    return f"{state.get('__module__')}.{state.get('__class__')}"


def _check_state(state: State, members: dict[str, bytes]) -> None:
    """Check what loading would use before it can be inspected as an object."""
    loader = state["__loader__"]
    if loader == "NdArrayNode" and state.get("type") == "numpy":
        array_member(members, state["file"])
    elif loader == "TreeNode":
        arguments, content = state["__reduce__"]["args"], state["content"]
        check_tree(_plain(arguments, members), _plain(content, members))
    elif loader == "RandomGeneratorNode":
        name = _plain(state["content"]["bit_generator"], members).get("bit_generator")
        if name not in GENERATORS:
            raise FedRelaxError(f"its random generator is of the unknown kind {name!r}")


def _plain(state: State, members: dict[str, bytes]) -> Any:
    """Return a number, text, array or container of these from its description."""
    loader = state["__loader__"]
    if loader == "JsonNode":
        return json.loads(state["content"])
    if loader in ("TupleNode", "ListNode"):
        return tuple(_plain(item, members) for item in state["content"])
    if loader == "DictNode":
        return {key: _plain(item, members) for key, item in state["content"].items()}
    if loader == "NdArrayNode" and state["type"] == "numpy":
        found = array_member(members, state["file"])
        return found if state["__class__"] == "ndarray" else found[()]
    raise damaged(f"one of its parts is a {_name(state)}")
