# ruff: noqa: PD011  (the values of a release are no pandas values)
"""Logistic regression by noisy rounds of Newton's method, start to end: charged once, stored, read back."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import special

import dpinfer as dpi
from dpinfer.errors import NotProvedError
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.iterations import RoundFrame, RoundSum, Term
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.procedure import Procedure
from dpinfer.release import read_release
from dpinfer.schema.basis import basis_of
from tests.kernel.rows.round_cases import LINKS, clipped

SCHEMA = dpi.Schema(x=dpi.Real(-2, 2), u=dpi.Real(0, 1), y=dpi.Boolean())
TRUE = np.array([-0.5, 1.2, 0.8])
BITS = 24


def rows_of(size, seed=1):
    """Rows of a logistic regression on the features: the constant, x and u, scaled to [-1, 1]."""
    rng = np.random.default_rng(seed)
    x, u = rng.uniform(-2, 2, size), rng.uniform(0, 1, size)
    eta = np.stack([np.ones(size), x / 2, 2 * u - 1], axis=1) @ TRUE
    return pd.DataFrame({"x": x, "u": u, "y": rng.random(size) < special.expit(eta)})


FRAME = rows_of(20_000)


@dataclass(frozen=True, eq=False)
class Rounds(Procedure):
    """Starts at zero, with a frame that every row fits; then each round whitens by the released Hessian."""

    procedures = ("rounds",)

    rounds: int = 2
    norm: str = "l2"
    tau: float | None = None

    def text(self, schema):
        return "y on x and u"

    def slots(self, context):
        share = Fraction(1, self.rounds)
        return tuple(Slot(share, 3 + 6, adaptive=place > 0) for place in range(self.rounds))

    def stage(self, place, context, released):
        theta, frame = np.zeros(3), np.eye(3) / 3**0.5
        if place:
            theta = self.step(released[-1])
            frame = self.whitening(released[-1])
        numbers = np.rint(np.vstack([frame, theta]) * 2**BITS).astype(np.int64)
        return Stage(Sum(self.sums(context.schema, numbers)), settings={"maps": numbers.tolist(), "bits": BITS})

    def sums(self, schema, numbers):
        maps = np.zeros((5, 4), dtype=np.int64)
        maps[:4, :3] = numbers
        maps[4] = [1, 0, 0, 1]  # half of the sum of 1 and a Boolean that is -1 or 1
        link = LINKS["logit"]
        frame = RoundFrame(
            Features(basis_of(["x", "u", "y"], schema)), maps, (BITS,) * 4 + (1,), mean=link.mean, norm=self.norm
        )
        free = link.free if self.norm == "l2" else 1.0
        prices = 1.0, free
        if self.tau is not None:  # a Hessian has a norm of at most 1/4 a row, of which a person has two
            prices = 0.5 / self.tau**2, 0.5 * 16 / 2**2
        terms = (
            Term("score", "vector", prices[0], clipped(1.0), cut=self.tau),
            Term("hessian", "matrix", prices[1], link.slope, "linear"),
        )
        return RoundSum(frame, terms)

    @staticmethod
    def read(released):
        """Return theta, the frame, and the released score and Hessian in its coordinates."""
        numbers = np.array(released.settings["maps"]) / 2.0 ** released.settings["bits"]
        hessian = np.zeros((3, 3))
        hessian[np.triu_indices(3)] = released.array[3:]
        values, vectors = np.linalg.eigh(hessian + np.triu(hessian, 1).T)
        return numbers[3], numbers[:3], released.array[:3], np.maximum(values, 1.0), vectors

    @classmethod
    def step(cls, released):
        """One step; the Hessian is positive, whatever the noise."""
        theta, frame, score, values, vectors = cls.read(released)
        return np.clip(theta + frame.T @ (vectors @ ((vectors.T @ score) / values)), -20, 20)

    @classmethod
    def whitening(cls, released):
        """Coordinates of about equal curvature, of which a row has length 1 at about two thirds of its extreme."""
        _, frame, _, values, vectors = cls.read(released)
        white = (vectors / np.sqrt(values / values.max())).T @ frame
        return white / np.abs(white).sum(axis=1).max() * 1.5 / 3**0.5

    def infer(self, release=None):
        found, _ = self._asked_of(release)
        return self.step(found.stages[-1])


def guarded(price, neighbors="add_remove", frame=FRAME, **options):
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(price, neighbors=neighbors), **options)


def likelihood(frame):
    design = np.stack([np.ones(len(frame)), frame["x"] / 2, 2 * frame["u"] - 1], axis=1)
    return sm.Logit(frame["y"].to_numpy(float), design).fit(disp=0)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("price", [dpi.ZCDP(0.5), dpi.GDP(1.0), dpi.ApproxDP(2.0, 1e-6), dpi.PureDP(2.0)], ids=str)
def test_two_rounds_are_charged_once_stored_and_read_back(price, neighbors, tmp_path):
    asked = Rounds(norm="l1" if isinstance(price, PureDP) else "l2")
    data = guarded(price, neighbors)
    release = asked.bind(data).measure(price)
    assert data.ledger.spent <= price
    assert len(data.ledger.charges()) == 1
    assert [len(stage.names) for stage in release.stages] == [9, 9]
    first, second = release.stages
    assert first.names == second.names
    assert first.names[2:5] == ("score 3", "hessian 1 * 1", "hessian 1 * 2")
    assert first.settings["maps"][3] == [0, 0, 0]
    np.testing.assert_allclose(np.array(second.settings["maps"][3]) / 2**BITS, Rounds.step(first), atol=2.0**-BITS)
    release.save(tmp_path / "release.json")
    again = read_release(tmp_path / "release.json")
    assert [stage.values for stage in again.stages] == [stage.values for stage in release.stages]
    assert again.stages[1].settings == second.settings
    estimate = asked.infer(release)
    assert asked.infer(again).tolist() == again.infer().tolist() == estimate.tolist()
    assert np.abs(estimate - likelihood(FRAME).params).max() < 0.3  # more than six standard deviations
    with pytest.raises(dpi.errors.BudgetExceededError):
        asked.bind(data).measure(price)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_noise_is_that_of_the_bounds(neighbors):
    """One unit of scaled score has noise of its own bound alone; the Hessian has 0.3003 of that, for nothing."""
    price, signed = dpi.ZCDP(0.5), {"add_remove": 1, "replace_one": 2}[neighbors]
    law = Rounds(rounds=1).measurement(price, schema=SCHEMA, neighbors=neighbors).stages[0]
    noise = np.array(law.law.scales) * np.array(law.steps)
    np.testing.assert_allclose(noise[:3], signed, rtol=2e-4)
    np.testing.assert_allclose(noise[[3, 6, 8]], 0.30029 * signed**0.5, rtol=2e-4)
    np.testing.assert_allclose(noise[[4, 5, 7]], 0.30029 * signed**0.5 / 2**0.5, rtol=2e-4)


def test_without_noise_rounds_meet_the_maximum_of_the_likelihood():
    """Rows all have weight 1 in the first frame: its steps are those of Newton's method."""

    class Plain(Rounds):
        procedures = ("plain rounds",)

        @classmethod
        def whitening(cls, released):
            return np.eye(3) / 3**0.5

    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(0))
    release = Plain(rounds=6).bind(data).measure(dpi.ZCDP(1e9))
    right = likelihood(FRAME)
    np.testing.assert_allclose(Plain(rounds=6).infer(release), right.params, atol=2e-5)
    hessian = np.zeros((3, 3))
    hessian[np.triu_indices(3)] = 3 * release.stages[-1].array[3:]
    np.testing.assert_allclose(np.triu(hessian), np.triu(np.linalg.inv(right.cov_params())), rtol=1e-4, atol=0.05)


def test_the_plan_names_the_round():
    text = Rounds().explain(dpi.ZCDP(0.5), schema=SCHEMA, neighbors="add_remove")
    assert "score, hessian of a round in 3 coordinates" in text
    assert "rows at their bounds" in text


def test_noise_of_the_other_norm_is_refused_before_the_charge():
    for price, norm in [(dpi.PureDP(1.0), "l2"), (dpi.ZCDP(0.5), "l1")]:
        data = guarded(price)
        with pytest.raises(NotProvedError, match="rows are in a set of norm"):
            Rounds(norm=norm).bind(data).measure(price)
        assert data.ledger.charges().empty


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("tau", [None, 1.2])
def test_people_are_served_by_rows_or_as_a_whole(tau, neighbors):
    frame = FRAME.assign(id=np.arange(len(FRAME)) // 2)
    price, asked = dpi.ZCDP(0.5), Rounds(tau=tau)
    data = guarded(price, neighbors, frame=frame, id="id", max_rows=2)
    release = asked.bind(data).measure(price)
    assert data.ledger.spent <= price
    assert np.abs(asked.infer(release) - likelihood(FRAME).params).max() < 0.6  # more than six standard deviations
    schema = SCHEMA.with_people("id", 2)
    law = Rounds(rounds=1, tau=tau).measurement(price, schema=schema, neighbors=neighbors).stages[0]
    noise = np.array(law.law.scales) * np.array(law.steps)
    signed, squared = {"add_remove": (1, 1), "replace_one": (2, 2**0.5)}[neighbors]
    score, hessian = (2, 2 * 0.30029) if tau is None else (tau / 0.5**0.5, 2 / 4 / 0.5**0.5)
    np.testing.assert_allclose(noise[:3], signed * score, rtol=2e-4)
    np.testing.assert_allclose(noise[[3, 6, 8]], squared * hessian, rtol=2e-4)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_people_as_a_whole_have_no_factor_under_laplace_noise(neighbors):
    price, schema = dpi.PureDP(1.0), SCHEMA.with_people("id", 2)
    law = Rounds(rounds=1, norm="l1", tau=1.2).measurement(price, schema=schema, neighbors=neighbors).stages[0]
    noise = np.array(law.law.scales) * np.array(law.steps)
    factor = 1 if neighbors == "add_remove" else 2
    # Prices are those of squares: here of sizes, over tau^2 and of 8 times the size of a product
    np.testing.assert_allclose(noise[:3], factor * 1.2**2 / 0.5, rtol=3e-4)
    np.testing.assert_allclose(noise[3:], factor / 2.0, rtol=3e-4)
