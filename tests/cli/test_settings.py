"""A flag is one field of the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from pydantic import Field
from typer.testing import CliRunner

from fedrelax import FedRelaxRegressor
from fedrelax.cli.compare import CompareConfig
from fedrelax.cli.config import command_with
from fedrelax.cli.fit import FitConfig
from fedrelax.cli.flags import LEARNING, flag

WORDS = ("towns.csv", "--node", "town", "--target", "power", "--out", "out")


@dataclass(frozen=True, kw_only=True)
class Longer(FitConfig):
    """The settings of fit, and one more.

    validation_share : Rows that stop the rounds.
    """

    validation_share: Annotated[float, Field(ge=0, lt=1)] = flag(
        LEARNING, default=0.0, argument="validation_share"
    )


def run_with(*words):
    """Return what the command was told, and what it printed."""
    told = []
    app = typer.Typer(rich_markup_mode="rich")
    app.command()(command_with(Longer)(lambda config, talk: told.append(config)))
    result = CliRunner().invoke(app, words)
    return told, " ".join(result.output.split())


def test_a_field_is_a_flag_a_setting_and_an_argument_of_the_estimator():
    (config,), _ = run_with(*WORDS, "--validation-share", "0.25")
    assert config.estimator_arguments()["validation_share"] == 0.25
    assert config.to_file()["validation-share"] == 0.25


def test_a_new_field_is_checked_and_has_its_place_in_the_help():
    told, text = run_with(*WORDS, "--validation-share", "2")
    assert told == [] and "error: --validation-share is 2.0: it must be less than 1" in text
    text = run_with("--help")[1]
    places = [text.index(name) for name in ("Learning", "--validation-share", "Running")]
    assert places == sorted(places)


def test_a_file_may_give_it(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("validation-share = 0.5\njobs = 2\n")
    (config,), _ = run_with(*WORDS, "--config", file.as_posix(), "--jobs", "3")
    assert (config.validation_share, config.jobs) == (0.5, 3)


def test_what_goes_to_the_estimator_are_its_arguments():
    needed = {"data": "towns.csv", "node": "town", "target": "power", "out": None}
    fit, compare = (kind(**needed).estimator_arguments() for kind in (FitConfig, CompareConfig))
    learning = {"alpha", "level", "rounds", "wiring", "quick", "minutes"}
    where = {"backend", "address"}
    assert set(fit) == learning | {"public_rows", "n_jobs", "random_state", *where}
    assert set(compare) == set(fit) - {"alpha"}
    assert set(fit) <= set(FedRelaxRegressor(alpha=0.1).get_params(deep=False))
