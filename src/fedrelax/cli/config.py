"""The settings of ``fit``, ``compare`` and ``stress``: from flags and a TOML file, checked once."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from fedrelax.cli.console import Talk, speaking
from fedrelax.cli.flags import flags_of, signature_of, words_of
from fedrelax.cli.settings import FileFlags, LearningConfig, pairs_of
from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.files import read_text, why_unread

Config = TypeVar("Config", bound=LearningConfig)


def command_with(
    kind: type[Config],
) -> Callable[[Callable[[Config, Talk], None]], Callable[..., None]]:
    """Turn a function of settings into a command whose flags are the fields of ``kind``."""

    def decorate(run: Callable[[Config, Talk], None]) -> Callable[..., None]:
        def command(**flags: Any) -> None:
            with speaking(
                bool(flags["debug"]), quiet=bool(flags["json"]), steps=kind.steps
            ) as talk:
                config = make_config(kind, flags.pop("config"), flags)
                talk.out.quiet = config.json
                with place_of(config):
                    run(config, talk)

        signature = signature_of(FileFlags, kind)
        found = signature.parameters.values()
        command.__annotations__ = {each.name: each.annotation for each in found}
        command.__dict__["__signature__"] = signature
        command.__name__, command.__doc__ = run.__name__, run.__doc__
        return command

    return decorate


def place_of(config: LearningConfig) -> AbstractContextManager[None]:
    """Return the context in which the command's fits run; a cluster it starts is stopped at the end."""
    from fedrelax.runtime.workers import using_backend

    return using_backend(config.backend, config.address)


def make_config(kind: type[Config], file: Path | None, flags: Mapping[str, Any]) -> Config:
    """Return the settings of a run: flags that were given (not None) win over the file.

    ``flags["trust"]`` holds the ``module:name`` models that the file may name. A file may come from
    anywhere, and so may a module next to it; only what the user types is trusted.
    """
    from pydantic import TypeAdapter, ValidationError

    flags = dict(flags)
    trust = flags.pop("trust", None) or ()
    given = {} if file is None else read_settings(kind, file)
    if file is not None:
        check_trusted(kind, f"--config {file}", given, flags, trust)
    for name, value in flags.items():
        if name == "model_for" and value:
            try:
                old, new = pairs_of(given.get(name, {})), pairs_of(value)
            except ValueError as error:
                raise FedRelaxError(f"--model-for: {error}") from None
            given[name] = {**old, **new} if isinstance(old, dict) else old
        elif value is not None and value != []:
            given[name] = value
    try:
        config: Config = TypeAdapter(kind).validate_python(given)
    except ValidationError as error:
        sentences = dict.fromkeys(sentence(kind, found) for found in error.errors())
        source = "" if file is None else f" (see {file})"
        raise FedRelaxError("; ".join(sentences) + source) from None
    return config


def check_trusted(
    kind: type[LearningConfig],
    source: str,
    given: Mapping[str, Any],
    flags: Mapping[str, Any],
    trust: Sequence[str],
) -> None:
    """Refuse what a file from elsewhere must not decide, unless the user has typed it as well.

    These are the settings that count only when typed, and ``module:name`` models, which run code.
    """
    for name, value in only_typed(kind, given).items():
        if flags.get(name) is None:
            words = shlex.join(words_of(kind, {name: value}))
            raise FedRelaxError(
                f"{source} sets {name} = {value!r}, which {flags_of(kind)[name].only_typed}, so it counts "
                f"only when typed; type {words} if you want it, else remove it from the file"
            )
    try:
        pairs = pairs_of(given.get("model_for", {}))
    except ValueError:
        return  # reported later, with the flag's name
    named = list(pairs.values()) if isinstance(pairs, dict) else []
    if flags.get("model") is None:
        named.append(given.get("model"))
    for name in named:
        if isinstance(name, str) and ":" in name and name not in trust:
            raise FedRelaxError(
                f"{source} names the model {name!r}, which runs the code of the module "
                f"{name.partition(':')[0]!r}; if you know that code and trust it, say so with "
                f"--trust {shlex.quote(name)}"
            )


def only_typed(kind: type[LearningConfig], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the settings that count only when typed, and do something."""
    return {
        name: settings[name]
        for name, flag in flags_of(kind).items()
        if flag.only_typed and settings.get(name) not in (None, False)
    }


def read_settings(kind: type[LearningConfig], file: Path) -> dict[str, Any]:
    """Return the settings of a TOML file by their names in ``kind``."""
    try:
        found = tomllib.loads(read_text(file, encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FedRelaxError(f"there is no file {file}; check --config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FedRelaxError(f"--config {file} cannot be read ({why_unread(error)})") from error
    except (ValueError, RecursionError) as error:
        raise FedRelaxError(f"--config {file} is not valid TOML: {error}") from error
    names = flags_of(kind)
    settings: dict[str, Any] = {}
    for key, value in found.items():
        name = key.replace("-", "_")
        if name not in names:
            known = sorted(n.replace("_", "-") for n in names)
            hint = did_you_mean(key.replace("_", "-"), known) or f"; known: {', '.join(known)}"
            raise FedRelaxError(f"--config {file} has the unknown key {key!r}{hint}")
        if name in settings:
            raise FedRelaxError(f"--config {file} gives {key!r} twice; keep one of them")
        settings[name] = value
    return settings


def sentence(kind: type[LearningConfig], error: Any) -> str:
    """Turn one pydantic error into a sentence: which flag, what was found, what is needed."""
    name, message = str(error["loc"][0]), str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "unexpected_keyword_argument":
        return f"the setting {name!r} is not known"
    flag = flags_of(kind)[name]
    if error["type"] == "missing":
        return f"{kind.command} needs {flag.named(name)}: {flag.needed}"
    if name == "alpha":
        message = "give 'auto' or a finite number of at least 0"
    elif message.startswith("Input should be"):
        message = message.replace("Input should be", "it must be", 1)
    if message.startswith(f"{flag.argument}="):
        return message  # which names the argument, and so the flag, itself
    said = "" if error["type"] == "value_error" else f" is {error['input']!r}"
    return f"{flag.named(name)}{said}: {message}"
