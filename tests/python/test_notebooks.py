"""The notebooks of examples/: every cell runs and shows what it should; by Jupyter where that is installed, else cell by cell."""

import ast
import contextlib
import glob
import importlib.util
import io
import json
import os
import sys
import unittest

FOLDER = os.path.join("examples", "notebooks")
# What a reader must have seen of each: pages, tables and charts by how they begin.
SHOWN = {
    "plan.ipynb": ["<iframe", "the bill adds up: True", "<table", "<Axes", "recommended: False"],
    "budget.ipynb": ["<iframe", "kept with probability 0.", "<table", "<Axes", "min-chance everything"],
    "checkpointing.ipynb": ["the machine is gone at step 38", "step-000000030", "after steps 31 to 60", "the same result: True"],
}


def by_jupyter(path):
    """Everything that its cells printed and showed, in a kernel of its own."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": FOLDER}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    texts = [output.get("text", "") for output in outputs]
    return "\n".join([*texts, *(text for output in outputs for text in output.get("data", {}).values() if isinstance(text, str))])


@contextlib.contextmanager
def within(folder):
    """`contextlib.chdir`, which Python 3.10 has not."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def by_cells(path):
    """The same without Jupyter: cell by cell, and the value of a last expression as a notebook shows it."""
    with open(path, encoding="utf-8") as file:
        cells = ["".join(cell["source"]) for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
    names, shown = {"__name__": "__main__"}, io.StringIO()
    with within(FOLDER), contextlib.redirect_stdout(shown):
        for number, source in enumerate(cells):
            tree = ast.parse(source)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, f"{path}, cell {number}", "exec"), names)
            value = eval(compile(ast.Expression(last.value), f"{path}, cell {number}", "eval"), names) if last else None
            if value is not None:
                page = getattr(value, "_repr_html_", None)
                print(repr(value), page() if page else "")
    return shown.getvalue()


class Notebooks(unittest.TestCase):
    def test_every_notebook_shows_what_it_should(self):
        paths = sorted(glob.glob(os.path.join(FOLDER, "*.ipynb")))
        self.assertEqual([os.path.basename(path) for path in paths], sorted(SHOWN))
        has_jupyter = all(importlib.util.find_spec(name) for name in ["nbclient", "ipykernel"])
        if "--jupyter" in sys.argv:
            self.assertTrue(has_jupyter, "nbclient and ipykernel are not installed")
        for path in paths:
            with self.subTest(path):
                shown = (by_jupyter if has_jupyter else by_cells)(path)
                for text in SHOWN[os.path.basename(path)]:
                    self.assertIn(text, shown)

    def test_what_is_kept_has_no_outputs(self):
        for path in glob.glob(os.path.join(FOLDER, "*.ipynb")):
            with open(path, encoding="utf-8") as file:
                notebook = json.load(file)
            for cell in notebook["cells"]:
                self.assertFalse(cell.get("outputs") or cell.get("execution_count"), f"{path}: clear its outputs before it is committed")


if __name__ == "__main__":
    # A chart needs no screen.
    os.environ.setdefault("MPLBACKEND", "Agg")
    unittest.main(argv=sys.argv[:1])
