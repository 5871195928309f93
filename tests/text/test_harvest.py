import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from unmask.errors import InputError
from unmask.text import harvest_docs
from unmask.text.harvest import prose

NUMPY_STYLE = """Add the values of a series together.

    The sum runs along ``axis`` of the :term:`array <numpy.ndarray>`, as is
    explained in [1]_ with care.

    Parameters
    ----------
    values : array_like, shape (n,)
        The values that are added together.
    axis: int, optional
        The axis along which they are added.

    See Also
    --------
    mean : The mean of the values is not wanted here.

    Notes
    -----
    The result may overflow without a warning::

        this code is certainly not prose.

    .. note:: Rounding is worth a thought here.
    .. math::

        a is the sum of the things.

    =====  =====
    table  cells are not prose.
    =====  =====

    References
    ----------
    .. [1] Somebody, A book that nobody has read.

    Examples
    --------
    The sum of two numbers is easy to see.

    >>> add([1, 2])
    3
    """

GOOGLE_STYLE = """Multiplies two matrices of any size.

    Args:
        left (Tensor, optional): the matrix on the left hand side.
        right (Tensor): the matrix on the
            right hand side.

    * The first item of a list is prose.
    * The second one is prose too.

    Shape:
        - The input has some shape or other.

    Returns:
        The product of the two matrices.
    """


def test_numpy_style() -> None:
    assert prose(NUMPY_STYLE).splitlines() == [
        "Add the values of a series together.",
        "The sum runs along axis of the array, as is explained in with care.",
        "The values that are added together.",
        "The axis along which they are added.",
        "Rounding is worth a thought here.",
        "The sum of two numbers is easy to see.",
    ]


def test_google_style() -> None:
    assert prose(GOOGLE_STYLE).splitlines() == [
        "Multiplies two matrices of any size.",
        "the matrix on the left hand side.",
        "the matrix on the right hand side.",
        "The first item of a list is prose.",
        "The second one is prose too.",
        "The product of the two matrices.",
    ]


@pytest.mark.parametrize(
    "text", ["", "Todo.", "f(x, y) -> z = x_1 ** {2} + y.", "no stop at the end of this"]
)
def test_no_prose(text: str) -> None:
    assert prose(text) == ""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "harvested_package"
    (folder / "tests").mkdir(parents=True)
    (folder / "__init__.py").write_text(
        '''"""This package is parsed and never imported."""
raise RuntimeError("imported")
class A:
    """This class has one method with words."""
    def method(self):
        """This method does not do anything."""
        def inner():
            """This function is inside of another."""
if True:
    add_newdoc("module", "name", """
        This text was added after the fact.
        """)
x = add_docstr(y, r"""f(x) -> y

This one was added with a format. {extra}
""".format(extra=1))
''',
        "utf-8",
    )
    (folder / "broken.py").write_text('"""This file is no Python at all."""\n(')
    (folder / "tests" / "test_a.py").write_text('"""This text is in a folder of tests."""')
    monkeypatch.syspath_prepend(str(tmp_path))
    return "harvested_package"


def test_docstrings_of_a_package(package: str) -> None:
    docs = list(harvest_docs([package]))
    assert [doc.text for doc in docs] == [
        "This package is parsed and never imported.",
        "This class has one method with words.",
        "This method does not do anything.",
        "This function is inside of another.",
        "This text was added after the fact.",
    ]
    assert {(doc.language, doc.source) for doc in docs} == {("en", "harvested_package/__init__.py")}


def test_a_package_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no package not_installed_here"):
        list(harvest_docs(["not_installed_here"]))


def test_real_packages_are_read_without_importing_them() -> None:
    code = """
import sys
from itertools import islice
from unmask.text.harvest import harvest_docs
texts = [doc.text for package in ("networkx", "torch") for doc in islice(harvest_docs([package]), 200)]
assert "torch" not in sys.modules and "networkx" not in sys.modules
print(sum(len(text.split()) for text in texts))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 5000


def test_the_order_is_the_same_every_time() -> None:
    first, second = (list(islice(harvest_docs(["networkx"]), 50)) for _ in range(2))
    assert first == second
    assert [doc.source for doc in first] == sorted(doc.source for doc in first)


@pytest.mark.slow
def test_all_of_it_is_a_corpus() -> None:
    words = sum(len(doc.text.split()) for doc in harvest_docs())
    assert words > 1_500_000
