"""A hostile file runs nothing and ends nothing: it is refused in one sentence."""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelaxClassifier, FedRelaxError, FedRelaxRegressor
from fedrelax.storage import load_result, save_result
from fedrelax.storage.insides import check_insides
from tests.conftest import skip_without_packages

from .hostile import resign

SOURCE = Path(sys.modules["fedrelax"].__file__).parent


def saved(directory, model, classify=False):
    rng = np.random.default_rng(1)
    X, nodes = rng.normal(size=(60, 3)), np.repeat(["a", "b"], 30)
    y = X @ [1.0, 2.0, -1.0]
    kind = FedRelaxClassifier if classify else FedRelaxRegressor
    fitted = kind(model, alpha=0.0, rounds=0).fit(X, y > 0 if classify else y, nodes=nodes)
    save_result(directory, fitted)
    return fitted, X, nodes


def first_file(directory):
    return sorted((directory / "models").iterdir())[0]


def parts(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def whole(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def plant(directory, schema, members=None):
    """Put a skops file with this description into a result."""
    text = json.dumps({"protocol": 2, "_skops_version": "0.16", **schema}).encode()
    first_file(directory).write_bytes(whole({**(members or {}), "schema.json": text}))
    resign(directory)


# Code


def state(module, name, loader, **more):
    return {"__module__": module, "__class__": name, "__loader__": loader, **more}


def plain(value):
    return state("builtins", "str", "JsonNode", content=json.dumps(value))


def keys(content):
    return state(
        "builtins",
        "list",
        "ListNode",
        content=[state("builtins", "str", "TypeNode")] * len(content),
    )


def of(**content):
    return state("builtins", "dict", "DictNode", content=content, key_types=keys(content))


def test_a_keras_model_inside_a_skops_file_runs_nothing(tmp_path):
    """A Lambda layer whose code writes a file; it used to run on loading, without any trust."""
    skip_without_packages("keras-mlp")
    from fedrelax.models.keras.estimator import load_keras

    keras = load_keras()
    evidence = tmp_path / "evidence"
    network = keras.Sequential(
        [
            keras.layers.Input((3,)),
            keras.layers.Lambda(eval(f"lambda x: (open({str(evidence)!r}, 'w'), x)[1]")),
            keras.layers.Dense(1),
        ]
    )
    network.compile("sgd", "mse")
    network.save(tmp_path / "evil.keras")
    evidence.unlink(missing_ok=True)
    saved(tmp_path / "out", Ridge())
    attributes = of(
        model=state("builtins", "bytes", "BytesNode", file="evil.bin"), _backend=plain("torch")
    )
    evil = state("fedrelax.models.keras.estimator", "KerasModel", "ObjectNode", content=attributes)
    plant(tmp_path / "out", evil, {"evil.bin": (tmp_path / "evil.keras").read_bytes()})
    with pytest.raises(FedRelaxError, match=r"not trusted: fedrelax\.models\.keras.*KerasModel"):
        load_result(tmp_path / "out")
    assert not evidence.exists()
    name = "fedrelax.models.keras.estimator.KerasModel"
    with pytest.raises(FedRelaxError):
        load_result(tmp_path / "out", trust=[name])
    assert not evidence.exists()


NAMED = [
    ("fedrelax.models.torch.model", "TorchModel", "ObjectNode"),
    ("fedrelax.models.boost", "CodedClassifier", "ObjectNode"),
    ("fedrelax.models.names", "model_by_name", "FunctionNode"),
    ("fedrelax.models.keras.estimator", "Backend", "ConstructorFromReduceNode"),
    ("sklearn.utils._joblib", "Memory", "ObjectNode"),
    ("sklearn.externals.array_api_compat.common._helpers", "Any", "ObjectNode"),
    ("sklearn.linear_model._ridge", "Ridge", "ConstructorFromReduceNode"),
    ("fedrelax.models.linear", "LinearModel", "ConstructorFromReduceNode"),
    ("sklearn.utils._bunch", "Bunch", "ListNode"),
    ("sklearn.ensemble._iforest", "IsolationForest", "ObjectNode"),
    ("scipy.sparse._matrix", "spmatrix", "SparseMatrixNode"),
]


@pytest.mark.parametrize(("module", "name", "loader"), NAMED)
def test_what_is_not_on_the_list_is_refused_whoever_defines_it(tmp_path, module, name, loader):
    saved(tmp_path / "out", Ridge())
    content = [] if loader == "ListNode" else of()
    more = {"type": "scipy", "file": "schema.json"} if "Sparse" in loader else {"content": content}
    plant(tmp_path / "out", state(module, name, loader, **more))
    with pytest.raises(FedRelaxError, match=f"not trusted: {re.escape(module)}.{name}"):
        load_result(tmp_path / "out")


def test_two_descriptions_of_one_object_cannot_hide_a_tree(tmp_path):
    """Of two descriptions with one number, skops makes the first; a check might read the second."""
    saved(tmp_path / "out", DecisionTreeRegressor(max_depth=2))
    members = parts(first_file(tmp_path / "out").read_bytes())
    schema = json.loads(members["schema.json"])
    content = schema["content"]["content"]
    good = content["tree_"]["content"]["content"]["nodes"]
    bad = np.load(io.BytesIO(members[good["file"]])).copy()
    bad["left_child"][0] = 10**9
    buffer = io.BytesIO()
    np.save(buffer, bad)
    content["criterion"] = {**good, "file": "bad.npy"}
    order = {"criterion": content.pop("criterion"), **content}
    schema["content"]["content"] = order
    plant(tmp_path / "out", schema, {**members, "bad.npy": buffer.getvalue()})
    try:
        load_result(tmp_path / "out").predict(np.zeros((1, 3)), ["a"])
    except FedRelaxError as error:
        assert "damaged" in str(error)


def test_no_loader_of_ours_can_unpickle_or_leave_safe_mode():
    """Search the source: what may run code from a file is not written anywhere."""
    forbidden = re.compile(
        r"pickle\.loads?\(|joblib\.load\(|torch\.load\(|allow_pickle=True|safe_mode=(?!True)"
        r"|enable_unsafe_deserialization|\beval\(|\bexec\("
    )
    pickling = re.compile("import pickle|cloudpickle")
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            ours = forbidden.search(line) and ".eval(" not in line and "autograd" not in str(path)
            if ours or pickling.search(line):
                found.append(f"{path.relative_to(SOURCE)}:{number}: {line.strip()}")
    assert found == []


def test_every_listed_type_exists_under_its_own_name():
    """A name on the list means one class or function, defined there, and no module or prefix."""
    from fedrelax.storage.trust import FUNCTIONS, OBJECTS, TYPES

    for name in (*OBJECTS, *FUNCTIONS):
        module, _, last = name.rpartition(".")
        found = getattr(__import__(module, fromlist=[last]), last)
        assert found.__name__ == last and callable(found)
        assert isinstance(found, type) == (name in OBJECTS)
    assert set(TYPES) - {*OBJECTS, *FUNCTIONS} == {
        "functools.partial", "numpy.dtype", "sklearn.tree._tree.Tree", "sklearn.utils._bunch.Bunch",
    }  # fmt: skip


def test_no_listed_type_loads_anything_when_its_state_is_set():
    """The state setters of listed classes are those that store values."""
    from fedrelax.storage.trust import OBJECTS

    known = {
        "BaseEstimator", "DistanceMetric", "DistanceMetric64", "KDTree", "BallTree", "BinaryTree64",
        "TreePredictor",
    }  # fmt: skip
    own = set()
    for name in OBJECTS:
        module, _, last = name.rpartition(".")
        found = getattr(__import__(module, fromlist=[last]), last)
        own |= {kind.__name__ for kind in found.__mro__ if "__setstate__" in vars(kind)}
    assert own <= known, own - known


# Trees and their like


def break_array(directory, match, change):
    """Change the first array whose type has a field, or whose place in the file is, ``match``."""
    members = parts(first_file(directory).read_bytes())
    for name, content in members.items():
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(content))
            if array.dtype.names and match in array.dtype.names and len(array) > 3:
                array = array.copy()
                change(array)
                buffer = io.BytesIO()
                np.save(buffer, array)
                members[name] = buffer.getvalue()
                break
    else:
        raise AssertionError(f"no array has a field {match}")
    first_file(directory).write_bytes(whole(members))
    resign(directory)


def put(field, value, at=0):
    def change(array):
        array[field][at] = value

    return change


OWNERS = {
    "tree": (DecisionTreeRegressor(), "left_child", "feature"),
    "forest": (RandomForestRegressor(n_estimators=2), "left_child", "feature"),
    "boosting": (GradientBoostingRegressor(n_estimators=2), "left_child", "feature"),
    "histogram": (HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=2), "left", "feature_idx"),
}  # fmt: skip


@pytest.mark.parametrize("what", ["far", "circle", "feature", "value"])
@pytest.mark.parametrize("owner", OWNERS)
def test_a_damaged_tree_is_refused_before_it_is_walked(tmp_path, owner, what):
    model, child, feature = OWNERS[owner]
    saved(tmp_path / "out", model)
    if what == "value" and owner != "histogram":
        pytest.skip("values stand in an array of their own")
    change = {"far": put(child, 4_000_000), "circle": put(child, 0),
              "feature": put(feature, 900_000), "value": put("value", np.nan)}[what]  # fmt: skip
    break_array(tmp_path / "out", child, change)
    with pytest.raises(
        FedRelaxError, match="this result is damaged: models/0001.*its .* is damaged"
    ):
        load_result(tmp_path / "out")


@pytest.mark.parametrize(
    "model", [KNeighborsRegressor(algorithm=a) for a in ("kd_tree", "ball_tree")]
)
def test_search_trees_of_neighbours_are_built_again(tmp_path, model):
    fitted, X, nodes = saved(tmp_path / "out", model.set_params(leaf_size=3))
    break_array(tmp_path / "out", "idx_start", put("idx_end", 10**8))
    loaded = load_result(tmp_path / "out")
    assert np.array_equal(loaded.predict(X, nodes), fitted.predict(X, nodes))


def edit_arrays(directory, attribute, change):
    """Change an array of the estimator in the first file, by the name of its attribute."""
    members = parts(first_file(directory).read_bytes())
    place = json.loads(members["schema.json"])["content"]["content"][attribute]
    array = change(np.load(io.BytesIO(members[place["file"]])))
    buffer = io.BytesIO()
    np.save(buffer, array)
    first_file(directory).write_bytes(whole({**members, place["file"]: buffer.getvalue()}))
    resign(directory)


def test_support_vectors_that_do_not_fit_are_refused(tmp_path):
    saved(tmp_path / "out", SVR())
    edit_arrays(tmp_path / "out", "_n_support", lambda a: a * 100_000)
    with pytest.raises(FedRelaxError, match="its SVR is damaged"):
        load_result(tmp_path / "out")


def test_support_vectors_of_a_single_class_are_refused():
    """Such a model was never fitted: everything else in it fits that one class."""
    model = SVC().fit([[0.0], [1.0]], [0, 1])
    model.classes_, model._n_support = model.classes_[:1], np.array([2], dtype=np.int32)
    model._dual_coef_, model._intercept_ = np.zeros((0, 2)), np.zeros(0)
    with pytest.raises(FedRelaxError, match="its SVC is damaged"):
        check_insides(model)


def test_a_neighbour_of_no_class_is_refused(tmp_path):
    saved(tmp_path / "out", KNeighborsClassifier(algorithm="brute"), classify=True)
    edit_arrays(tmp_path / "out", "_y", lambda a: a + 1000)
    with pytest.raises(FedRelaxError, match="its KNeighborsClassifier is damaged"):
        load_result(tmp_path / "out")


@pytest.mark.parametrize(
    "change",
    [lambda a: a * np.nan, lambda a: a[..., :2], lambda a: np.stack([a, a])],
    ids=["not a number", "a feature too few", "an output too many"],
)
def test_coefficients_that_cannot_be_right_are_refused(tmp_path, change):
    saved(tmp_path / "out", Ridge())
    edit_arrays(tmp_path / "out", "coef_", change)
    with pytest.raises(
        FedRelaxError, match="this result is damaged: models/0001.*does not predict"
    ):
        load_result(tmp_path / "out")


# Bombs


def test_a_small_file_that_would_become_huge_is_refused(tmp_path):
    saved(tmp_path / "out", Ridge())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros.npy", bytes(200 * 2**20))
        file.writestr("schema.json", json.dumps({"protocol": 2, **plain(1)}))
    assert len(buffer.getvalue()) < 2**20
    first_file(tmp_path / "out").write_bytes(buffer.getvalue())
    resign(tmp_path / "out")
    with pytest.raises(FedRelaxError, match="would unpack to"):
        load_result(tmp_path / "out")


def test_an_array_that_claims_more_than_it_has_is_refused(tmp_path):
    saved(tmp_path / "out", Ridge())
    members = parts(first_file(tmp_path / "out").read_bytes())
    name = next(name for name in members if name.endswith(".npy"))
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, header)
    first_file(tmp_path / "out").write_bytes(whole({**members, name: buffer.getvalue()}))
    resign(tmp_path / "out")
    with pytest.raises(FedRelaxError, match="is not a whole array in the .npy"):
        load_result(tmp_path / "out")
