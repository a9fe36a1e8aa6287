"""What is loaded when: the package loads no topic, and nothing is imported between a charge and its release.

An import there could fail for a reason of its own after the price was paid.
"""

import ast
from pathlib import Path

import pytest

import dpinfer as dpi
from tests.processes import needs_fork, start

_AFTER_THE_CHARGE = """
import os, sys, tempfile
from pathlib import Path
import dpinfer as dpi
from dpinfer.privacy.store import Account
from tests.contract.questions import HOME
from tests.goldens.frame import PERSON, SCHEMA
from tests.kernel.sources.kinds import kinds

def told(asked, privacy, seen=[]):
    charge = Account.charge
    def charged(*args, **options):
        identifier = charge(*args, **options)
        seen.append(set(sys.modules))
        return identifier
    Account.charge = charged
    asked().measure(privacy)
    return sorted(set(sys.modules) - seen[0])

def alone(name, asked, privacy):
    # a process for each, so that none has loaded what another needs
    if os.fork() == 0:
        try:
            print(name, told(asked, privacy), sep="\\t", flush=True)
        finally:
            os._exit(0)
    assert os.wait()[1] == 0

def counted(source, **people):
    return dpi.count(data=dpi.PrivateData(source(), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1)), **people))

if sys.argv[1] == "questions":
    for question in [one.values[0] for one in HOME if not one.marks]:
        alone(question.ask.name, question.private, question.privacy)
else:
    for name, source in kinds(Path(tempfile.mkdtemp())).items():
        alone(name, lambda: counted(source), dpi.ZCDP(1))
        alone(f"{name} of people", lambda: counted(source, **PERSON), dpi.ZCDP(1))
"""


def _said(code, *arguments, folder=None):
    child = start(code, *arguments, folder=folder)
    out, errors = child.communicate(timeout=300)
    assert child.returncode == 0, errors
    return out


def test_importing_the_package_loads_no_topic():
    code = "import sys, dpinfer; dir(dpinfer); print([name for name in sys.modules if name.startswith('dpinfer')])"
    assert sorted(ast.literal_eval(_said(code))) == ["dpinfer", "dpinfer._version"]


def test_every_public_name_is_the_one_that_a_type_checker_finds():
    named = {
        (one.module.removeprefix("dpinfer."), other.name)
        for one in ast.walk(ast.parse(Path(dpi.__file__).read_text(encoding="utf-8")))
        if isinstance(one, ast.ImportFrom) and one.module.startswith("dpinfer.") and one.col_offset
        for other in one.names
    } - {("procedures.keywords", "instead_of")}
    assert named == {(module, name) for module, names in dpi._HOMES.items() for name in names.split()}
    assert sorted(dpi.__all__) == sorted(["__version__", "errors", *(name for _, name in named)])


@needs_fork
@pytest.mark.parametrize("what", [pytest.param("questions", marks=pytest.mark.slow), "sources"])
def test_nothing_is_imported_between_a_charge_and_its_release(what, tmp_path):
    lines = _said(_AFTER_THE_CHARGE, what, folder=tmp_path).splitlines()
    assert len(lines) >= 20
    assert [line for line in lines if not line.endswith("\t[]")] == []
