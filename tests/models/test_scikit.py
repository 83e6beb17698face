"""Any scikit-learn estimator takes part, and its weights arrive."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, SGDRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from fedrelax import FedRelax, FedRelaxWarning
from fedrelax.losses import Log, Squared
from fedrelax.models import Rows, Task, adapt
from fedrelax.models.criteria import resample, weight_argument
from tests.conftest import classification_network, regression_network

NUMBERS = Task("regression", 1)

REGRESSORS = [
    Ridge(),
    make_pipeline(StandardScaler(), Ridge()),
    make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), SVR())),
    HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=2),
    RandomForestRegressor(5),
    MLPRegressor(hidden_layer_sizes=(4,), max_iter=20),
    SVR(),
    KNeighborsRegressor(2),
    GaussianProcessRegressor(alpha=0.1),
    TransformedTargetRegressor(Ridge()),
    GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2),
    BaggingRegressor(KNeighborsRegressor(1), n_estimators=3),
    VotingRegressor([("a", Ridge()), ("b", SVR())]),
    StackingRegressor([("a", Ridge())], final_estimator=Ridge(), cv=2),
]
CLASSIFIERS = [
    LogisticRegression(),
    DecisionTreeClassifier(),
    HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2),
    MLPClassifier(hidden_layer_sizes=(4,), max_iter=20),
    SVC(),
    LinearSVC(),
    RidgeClassifier(),
    GaussianNB(),
    KNeighborsClassifier(2),
    GaussianProcessClassifier(),
    make_pipeline(StandardScaler(), LogisticRegression()),
    VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], voting="soft"),
]


def by_class(model):
    return type(model).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", REGRESSORS, ids=by_class)
def test_every_regressor_trains(model):
    result = FedRelax(alpha=0.3, rounds=2).solve(
        regression_network(np.random.default_rng(0), model)
    )
    assert all(type(m) is type(model) for m in result.models.values())
    assert np.isfinite(result.history["objective"]).all()
    assert result.history["gtv"][-1] < result.history["gtv"][0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", CLASSIFIERS, ids=by_class)
def test_every_classifier_trains(model):
    network = classification_network(np.random.default_rng(0), model)
    result = FedRelax(alpha=0.5, rounds=2).solve(network)
    grid = np.random.default_rng(1).normal(size=(9, 3))
    for local in result.local_models.values():
        share = local.predict(grid)
        assert share.shape == (9, 3)
        assert share.sum(axis=1) == pytest.approx(1.0)
    answers = {name for model in result.models.values() for name in model.predict(grid)}
    assert answers <= {"ash", "birch", "cedar"}


class Recorder(RegressorMixin, BaseEstimator):
    """Remembers the weights that reached it."""

    def fit(self, X, y, sample_weight=None):
        self.weights_ = sample_weight
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


ROWS = Rows(np.arange(3.0)[:, None], np.arange(3.0)[:, None], np.array([1.0, 0.0, 0.25]), Squared())


@pytest.mark.parametrize(
    ("wrap", "inside"),
    [
        (lambda m: m, lambda e: e),
        (lambda m: Pipeline([("s", StandardScaler()), ("m", m)]), lambda e: e[-1]),
        (lambda m: TransformedTargetRegressor(m), lambda e: e.regressor_),
        (lambda m: MultiOutputRegressor(m), lambda e: e.estimators_[0]),
    ],
    ids=["plain", "pipeline", "transformed target", "multi-output"],
)
def test_weights_reach_the_learner_and_zero_rows_are_left_out(wrap, inside):
    if "Multi" in type(wrap(Recorder())).__name__:
        rows = Rows(ROWS.X, np.hstack([ROWS.target, ROWS.target]), ROWS.weight, Squared())
        fitted = adapt(wrap(Recorder()), Task("regression", 2)).fit([rows], seed=0)
    else:
        fitted = adapt(wrap(Recorder()), NUMBERS).fit([ROWS], seed=0)
    assert inside(fitted.estimator).weights_ == pytest.approx([1.0, 0.25])


def test_equal_weights_are_an_ordinary_fit():
    rows = Rows(ROWS.X, ROWS.target, np.ones(3), Squared())
    assert adapt(Recorder(), NUMBERS).fit([rows], seed=0).estimator.weights_ is None


def test_weight_argument_of_wrappers():
    assert weight_argument(MultiOutputRegressor(KNeighborsRegressor())) is None
    assert weight_argument(GridSearchCV(KNeighborsRegressor(), {})) is None
    assert weight_argument(GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {})) == (
        "ridge__sample_weight"
    )
    assert weight_argument(VotingRegressor([("a", Ridge()), ("b", KNeighborsRegressor())])) is None
    assert weight_argument(BaggingRegressor(KNeighborsRegressor())) == "sample_weight"


def test_resampling_counts_follow_the_weights():
    weight = np.random.default_rng(0).uniform(0, 3, 40)
    counts = np.bincount(resample(weight, 1000, np.random.default_rng(1)), minlength=40)
    assert np.abs(counts - 1000 * weight / weight.sum()).max() < 1


def test_no_weights_means_resampling_said_once():
    network = regression_network(np.random.default_rng(0), KNeighborsRegressor(2))
    with pytest.warns(
        FedRelaxWarning, match="'KNeighborsRegressor' takes no sample weights"
    ) as seen:
        FedRelax(alpha=0.3, rounds=3).solve(network)
    assert len([w for w in seen if w.category is FedRelaxWarning]) == 1


def test_gaussian_process_weights_are_noise_levels():
    """A row of weight 2 counts like two rows of weight 1."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 1)), rng.normal(size=(6, 1))
    grid = np.linspace(-2, 2, 9)[:, None]
    kernel = GaussianProcessRegressor(alpha=0.3, optimizer=None)
    twice = Rows(X, y, np.r_[2.0, np.ones(5)], Squared())
    copies = Rows(np.r_[X, X[:1]], np.r_[y, y[:1]], np.full(7, 1.0 + 1e-12), Squared())
    one = adapt(kernel, NUMBERS).fit([twice], seed=0).predict(grid)
    two = adapt(kernel, NUMBERS).fit([copies], seed=0).predict(grid)
    plain = GaussianProcessRegressor(alpha=0.3, optimizer=None).fit(copies.X, copies.target[:, 0])
    assert one == pytest.approx(two, abs=1e-8)
    assert one[:, 0] == pytest.approx(plain.predict(grid), abs=1e-8)


def test_soft_labels_are_k_weighted_copies():
    """Fitting soft labels equals fitting hard labels in the same shares."""
    rng = np.random.default_rng(0)
    task = Task("classification", 2, np.array(["no", "yes"]))
    X = rng.normal(size=(40, 2))
    share = np.where(rng.random(40) < 0.5, 0.25, 0.75)
    soft = Rows(X, np.stack([1 - share, share], axis=1), np.full(40, 4.0), Log())
    model = LogisticRegression(tol=1e-10, max_iter=5000)
    fitted = adapt(model, task).fit([soft], seed=0)
    many = np.repeat(X, 4, axis=0)
    labels = np.concatenate([["yes"] * k + ["no"] * (4 - k) for k in (4 * share).astype(int)])
    by_hand = LogisticRegression(tol=1e-10, max_iter=5000).fit(many, labels)
    assert fitted.estimator.coef_ == pytest.approx(by_hand.coef_, abs=1e-5)


def test_a_node_with_one_class_knows_that_class():
    task = Task("classification", 3, np.array([1, 2, 3]))
    rows = Rows(np.zeros((4, 2)), task.encode(np.full(4, 2)), np.ones(4), Log())
    fitted = adapt(LogisticRegression(), task).fit([rows], seed=0)
    assert fitted.predict(np.ones((1, 2))).tolist() == [[0.0, 1.0, 0.0]]


class OnlyLabels(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_, self.label_ = np.unique(y), y[0]
        return self

    def predict(self, X):
        return np.full(len(X), self.label_)


def test_without_probabilities_the_answer_is_a_hard_label():
    task = Task("classification", 2, np.array(["a", "b"]))
    rows = Rows(np.zeros((2, 1)), task.encode(np.array(["b", "a"])), np.ones(2), Log())
    assert adapt(OnlyLabels(), task).fit([rows], seed=0).predict(np.zeros((1, 1))).tolist() == [
        [0, 1]
    ]


def test_unset_random_states_get_the_node_seed_also_inside_a_pipeline():
    model = make_pipeline(StandardScaler(), RandomForestRegressor(3))
    fitted = adapt(model, NUMBERS).fit([ROWS], seed=42).estimator
    assert fitted[-1].random_state == 42
    assert model[-1].random_state is None


def test_continued_models_train_on():
    """One pass per round: continued, the optimiser goes on; afresh, it starts over."""
    rng = np.random.default_rng(0)
    network = regression_network(rng, SGDRegressor(max_iter=1, tol=None, eta0=0.001))
    losses = {}
    for continued in (False, True):
        result = FedRelax(alpha=0.1, rounds=30, tol=0, continued=continued).solve(network)
        losses[continued] = result.history["local_loss"][-1]
    assert losses[True] < 0.8 * losses[False]


class CountingLearner(RegressorMixin, BaseEstimator):
    """Has ``partial_fit`` only, like an incremental tree."""

    def fit(self, X, y):
        return self.partial_fit(X, y)

    def partial_fit(self, X, y):
        self.calls_ = getattr(self, "calls_", 0) + 1
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.mark.filterwarnings("ignore::fedrelax.FedRelaxWarning")
def test_partial_fit_is_used_when_continued():
    network = regression_network(np.random.default_rng(0), CountingLearner())
    on = FedRelax(alpha=0.5, rounds=3, tol=0, continued=True).solve(network)
    assert {model.calls_ for model in on.models.values()} == {4}
    afresh = FedRelax(alpha=0.5, rounds=3, tol=0).solve(network)
    assert {model.calls_ for model in afresh.models.values()} == {1}


def test_margin_and_vote_learners_get_the_most_likely_label():
    """Copies of one row under several labels would only confuse them."""
    task = Task("classification", 2, np.array(["no", "yes"]))
    X = np.linspace(-1, 1, 21)[:, None]
    share = np.where(X > 0, 0.6, 0.4)
    soft = Rows(X, np.hstack([1 - share, share]), np.full(21, 0.7), Log())
    for model in (SVC(), LinearSVC(), KNeighborsClassifier(1)):
        fitted = adapt(model, task).fit([soft], seed=0)
        assert fitted.estimator.predict([[0.9]]).tolist() == ["yes"]
        assert fitted.estimator.predict([[-0.9]]).tolist() == ["no"]
    assert adapt(LogisticRegression(), task).takes_soft_labels


def test_the_scale_of_a_linear_model_makes_its_penalty_free_of_units():
    """A ridge on standardised features, without touching the inputs."""
    from fedrelax import FedRelaxError, LinearModel

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) * [1.0, 100.0, 0.01] + 5
    y = X @ [1.0, 0.02, 30.0] + rng.normal(size=40)
    spread = X.std(axis=0)
    ours = LinearModel(ridge=2.0, scale=spread.tolist()).fit(X, y)
    standard = make_pipeline(StandardScaler(), Ridge(alpha=2.0)).fit(X, y)
    assert ours.predict(X) == pytest.approx(standard.predict(X), abs=1e-8)
    with pytest.raises(FedRelaxError, match="one finite number of at least 0 for each of the 3"):
        LinearModel(ridge=1.0, scale=[1.0]).fit(X, y)
