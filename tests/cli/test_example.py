"""The sample table: written whole, always the same, and worth learning together."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from fedrelax.cli.app import app
from fedrelax.datasets import example_table
from fedrelax.schema import schema_of

READER = CliRunner(env={"COLUMNS": "200"})


def test_the_command_writes_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = READER.invoke(app, ["example", "my.csv"])
    assert answer.exit_code == 0
    assert "fedrelax fit my.csv --node site --target load --out result" in answer.output
    pd.testing.assert_frame_equal(pd.read_csv("my.csv"), example_table())
    again = READER.invoke(app, ["example", "my.csv"])
    assert again.exit_code == 2 and "my.csv exists" in again.output


def test_it_has_what_real_tables_have() -> None:
    kinds = {column.name: column.kind for column in schema_of(example_table())[0].columns}
    assert kinds["date"] == "date" and kinds["building"] == "category"
    assert example_table()["wind"].isna().any()
