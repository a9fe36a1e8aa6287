"""Running a measurement: check, charge, sum, draw."""

from __future__ import annotations

from dpinfer.errors import OptionError
from dpinfer.mechanisms.data import Data, PrivateData, PublicData, rows_of
from dpinfer.mechanisms.samplers import check_scales, private_noise, simulated_noise
from dpinfer.mechanisms.sums import exact_sums
from dpinfer.release import Measurement, Release

__all__ = ["run"]


def run(measurement: Measurement, data: Data, *, threads: int | None = None) -> Release:
    """Run a measurement on rows.

    Parameters
    ----------
    measurement : Measurement
    data : PrivateData or PublicData
    threads : int, optional
        Worker threads; the sums do not depend on it.

    Returns
    -------
    Release

    Raises
    ------
    BudgetExceededError
        If the ledger refuses the charge; nothing is then drawn.
    OptionError
        If the measurement was made for other neighbours than the data have.
    PrivacyUnitError
        If the noise is too large to be drawn exactly.

    Notes
    -----
    Everything that can fail for a public reason fails before the charge. The charge is on disk before any
    row is read: a crash after it never gives budget back.
    """
    if measurement.neighbors != data.neighbors:
        raise OptionError("neighbors", measurement.neighbors, f"{data.neighbors!r}, as the data are protected")
    if threads is not None and threads < 1:
        raise OptionError("threads", threads, "a positive whole number, or None")
    check_scales(measurement.law)
    charge_id = None
    if isinstance(data, PrivateData):
        charge_id = data.ledger.charge(measurement.cost, _description(measurement))
    sums = exact_sums(measurement.rows, rows_of(data), threads=threads)[: len(measurement.names)]
    if isinstance(data, PublicData):
        noise = simulated_noise(measurement.law, data.rng)
    else:
        noise = private_noise(measurement.law)
    return Release(
        kind=measurement.kind,
        question=measurement.question,
        values=tuple(total * measurement.multiplier + drawn for total, drawn in zip(sums, noise, strict=True)),
        steps=measurement.steps,
        names=measurement.names,
        law=measurement.law,
        cost=measurement.cost,
        neighbors=measurement.neighbors,
        nobs=data.nobs,
        charge_id=charge_id,
        public=isinstance(data, PublicData),
        dataset=data.ledger.dataset if isinstance(data, PrivateData) else None,
    )


def _description(measurement: Measurement) -> str:
    text = str(measurement.question["text"])
    return text if text.startswith(measurement.kind) else f"{measurement.kind}: {text}"
