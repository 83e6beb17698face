"""From a table as it stands to predictions, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from fedrelax.storage import load_result, read_result

from ..schema.tables import shops

FIT = ("fit", "shops.csv", "--node", "shop", "--target", "sales", "--out", "out", "--quick")


def write(frame, name="shops.csv"):
    frame.to_csv(name, index=False)


def test_a_table_of_text_dates_and_gaps_is_used_whole(run):
    frame = shops(3)
    write(frame)
    run.made(*FIT)
    saved = read_result("out")
    assert saved.about["feature_names"] == ["type", "date", "promotion", "price"]
    assert saved.metrics["training_rows"] > 0.6 * len(frame)
    kinds = {c.name: c.kind for c in saved.preparation.schema.columns}
    assert kinds == {"type": "category", "date": "date", "promotion": "category", "price": "number"}
    errors = saved.metrics["errors"]
    assert errors["together"] < 1.4 * 2.0 < errors["alone"] * 1.4


def test_predict_takes_any_order_and_new_categories_and_names_what_is_missing(run):
    frame = shops(3)
    write(frame)
    run.made(*FIT)
    fitted = load_result("out")
    new = frame.drop(columns="sales").head(40)
    write(new[list(new.columns[::-1])], "new.csv")
    run("predict", "out", "new.csv", "--out", "p.csv")
    assert run.code == 0
    answers = pd.read_csv("p.csv")["prediction"]
    np.testing.assert_allclose(answers, fitted.predict(new.drop(columns="shop"), new["shop"]))
    new.loc[2, "promotion"] = "television"
    write(new, "new.csv")
    text = run("predict", "out", "new.csv", "--out", "p.csv", "--overwrite")
    assert run.code == 0 and "'promotion' has 1 values that were not seen in training" in text
    assert "line 4" in text
    write(new.drop(columns="price"), "new.csv")
    text = run.refused("predict", "out", "new.csv", "--out", "q.csv")
    assert "no column 'price', which is one of the features" in text


def test_predict_reads_texts_that_no_model_has_met(run):
    rng = np.random.default_rng(2)
    frame = shops(3)
    words = ["corner", "north", "old", "blue", "market", "hall"]
    frame["note"] = [f"{' '.join(rng.choice(words, 3))} {k}" for k in range(len(frame))]
    write(frame)
    run(*FIT, "--alpha", "0.3", "--rounds", "1", "--model", "ridge")
    new = frame.drop(columns="sales").head(20).assign(note=lambda f: f["note"] + " again")
    write(new, "new.csv")
    run("predict", "out", "new.csv", "--out", "p.csv")
    assert run.code == 0
    expected = load_result("out").predict(new.drop(columns="shop"), new["shop"])
    np.testing.assert_allclose(pd.read_csv("p.csv")["prediction"], expected)


def test_the_schema_is_a_file_that_others_can_use(run):
    write(shops(3))
    run.made(*FIT)
    said = json.loads(Path("out/schema.json").read_text())
    assert [column["name"] for column in said["columns"]][:2] == ["type", "date"]
    Path("agreed.json").write_text(Path("out/schema.json").read_text())
    write(shops(4))
    run(*FIT, "--schema", "agreed.json", "--overwrite")
    assert run.code == 0
    again = json.loads(Path("out/schema.json").read_text())
    assert again["columns"] == said["columns"]
    Path("agreed.json").write_text('{"columns": []}')
    assert "at least one column" in run.refused(*FIT, "--schema", "agreed.json", "--overwrite")
    write(shops(4).drop(columns="type"))
    Path("agreed.json").write_text(json.dumps(said))
    assert "no column 'type'" in run.refused(*FIT, "--schema", "agreed.json", "--overwrite")


def test_names_of_nodes_and_categories_stay_as_they_are_written(run):
    rng = np.random.default_rng(0)
    names = ["007", "7", "1e3", "1000", "1.10", "1.1", "NA", str(2**53), str(2**53 + 1)]
    lines = ["site;code;country;x;y"]
    for k in range(90):
        site, code = names[k % 9], ("01", "1")[k // 9 % 2]
        country = ("NA", "SE", "")[k // 9 % 3]
        x = rng.normal()
        y = x + 3 * names.index(site) + 5 * (code == "01") + 0.1 * rng.normal()
        lines.append(f"{site};{code};{country};{x:.3f};{y:.3f}")
    Path("t.csv").write_text("\n".join(lines) + "\n")
    run("fit", "t.csv", "--node", "site", "--target", "y", "--out", "out", "--quick")
    assert run.code == 0
    saved = read_result("out")
    assert sorted(saved.graph.labels) == sorted(names)
    columns = {column.name: column for column in saved.preparation.schema.columns}
    assert columns["code"].categories == ("01", "1")
    assert columns["country"].categories == ("NA", "SE") and columns["country"].gaps
    run("predict", "out", "t.csv", "--out", "p.csv")
    assert run.code == 0
    found = pd.read_csv("p.csv", dtype={"site": str, "code": str}, keep_default_na=False)
    assert found["site"].tolist()[:9] == names
    left = found["prediction"].astype(float) - found["y"].astype(float)
    assert np.abs(left).mean() < 0.5


def test_a_station_without_a_gauge(run):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "town": np.repeat(list("abcdef"), 12),
            "wind": rng.normal(size=72),
            "sun": 0.0,
            "power": 0.0,
        }
    )
    frame["sun"] = frame["wind"] + 0.5 * rng.normal(size=72)
    frame["power"] = 2 * frame["wind"] + frame["sun"] + 0.1 * rng.normal(size=72)
    frame.loc[frame["town"] == "c", "wind"] = np.nan
    write(frame, "towns.csv")
    run("fit", "towns.csv", "--node", "town", "--target", "power", "--out", "out", "--model", "ridge",
        "--alpha", "0.1")  # fmt: skip
    assert run.code == 0
    saved = read_result("out")
    assert saved.preparation.lacks == {"c": (0,)}
    assert load_result("out").models_["c"][-1].n_features_in_ == 1
    write(frame[frame["town"] == "c"].drop(columns="wind"), "new.csv")
    run("predict", "out", "new.csv", "--out", "p.csv")
    assert run.code == 0
    write(frame.drop(columns="wind"), "new.csv")
    assert "no column 'wind'" in run.refused("predict", "out", "new.csv", "--out", "q.csv")


def ugly_towns() -> list[str]:
    """Lines of a table with mixed offsets, decimal commas, currencies, percents and missing targets."""
    rng = np.random.default_rng(1)
    lines = ["town;time;fee;share;wind;power"]
    for k in range(60):
        summer, fee, wind = k % 2, 500 + 50 * k, float(rng.normal())
        moment = f"2024-0{7 if summer else 1}-{1 + k // 3:02d}T08:00:00+0{1 + summer}:00"
        power = "" if k in (5, 30) else f"{0.01 * fee + wind + k % 3:.2f}".replace(".", ",")
        gap = "n/a" if k == 9 else f"{wind:.3f}".replace(".", ",")
        money = f"€{fee:,.2f}" if k != 11 else "ask"
        lines.append(f"{'abc'[k % 3]};{moment};{money};{k % 40} %;{gap};{power}")
    return lines


def test_an_ugly_table_is_read_says_how_and_is_read_alike_by_predict_and_update(run):
    lines = ugly_towns()
    Path("t.csv").write_text("\n".join(lines), encoding="utf-8")
    args = ("--alpha", "0.3", "--rounds", "2", "--model", "linear", "--out", "out")
    text = run("fit", "t.csv", "--node", "town", "--target", "power", *args)
    assert run.code == 0
    kinds = {c.name: (c.kind, c.decimal) for c in read_result("out").preparation.schema.columns}
    assert kinds == {
        "time": ("date", ""),
        "fee": ("number", "."),
        "share": ("number", ""),
        "wind": ("number", ""),
    }
    assert "Column 'fee' holds numbers such as '€500.00', read as 500." in text
    assert "'fee' holds numbers except in 1 row, such as 'ask' on line 13" in text
    assert "Column 'share' holds numbers such as '0 %', read as 0." in text
    assert "2 of 60 rows are left out: 'power' is missing or infinite." in text
    run("predict", "out", "t.csv", "--out", "p.csv")
    assert run.code == 0
    whole = pd.read_csv("p.csv")["prediction"]
    assert len(whole) == 60 and np.isfinite(whole).all()
    Path("one.csv").write_text(f"{lines[0]}\n{lines[20]}", encoding="utf-8")
    run("predict", "out", "one.csv", "--out", "q.csv")
    np.testing.assert_allclose(pd.read_csv("q.csv")["prediction"], whole[19])
    text = run("update", "out", "t.csv", "--out", "next")
    assert run.code == 0 and "2 of 60 rows are left out: they have no target in column" in text
    Path("bad.csv").write_text(f"{lines[0]}\n{lines[20]}x", encoding="utf-8")
    assert "'power' has no number in 1 rows" in run.refused(
        "update", "out", "bad.csv", "--out", "o"
    )


def test_a_class_that_only_test_rows_have_is_learned_in_the_end(run):
    rng = np.random.default_rng(0)
    classes = ["a", "b"] * 15
    frame = pd.DataFrame({"shop": ["x", "y", "z"] * 10, "size": rng.normal(size=30)})
    frame["day"], frame["sales"] = np.arange(30), [*classes[:-1], "c"]
    write(frame)
    run(*FIT, "--split-by", "day", "--test-from", "24", "--features", "size")
    assert run.code == 0
    assert load_result("out").classes_.tolist() == ["a", "b", "c"]


def test_a_node_without_any_feature_is_named(run):
    frame = pd.DataFrame({"shop": list("abc") * 8, "size": np.arange(24.0)})
    frame["sales"] = np.sin(frame["size"])
    frame.loc[frame["shop"] == "b", "size"] = np.nan
    write(frame)
    text = run.refused(*FIT, "--alpha", "0.3", "--model", "linear")
    assert "node 'b' has no value in any feature column; fill one in" in text
