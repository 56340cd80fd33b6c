#!/usr/bin/env python3
"""Checks tools/notebook.ipynb; needs neither Jupyter nor a GPU. Run it: python3 tools/test_notebook.py -v

`Cells` runs the code cells with shell commands that are only noted down, as on a machine with and without nvcc and a GPU.
`Executed` executes the notebook, as it is committed, in Jupyter's kernel, and is skipped where `pip install nbclient ipykernel
cmake matplotlib` has not been done. It hides nvcc, so that nothing is built; NOTEBOOK_BUILD=1 builds and runs all of it, which
takes minutes. NOTEBOOK_EXECUTED=FILE keeps what came out."""
import argparse
import ast
import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest
from unittest import mock

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import plot
import records
from test_tools import InFolder, matplotlib

try:
    import cmake  # pip's
    import ipykernel
    import nbclient
    import nbformat
except ImportError:
    nbclient = None

ROOT = TOOLS.parent
TOPICS = sorted(path.parent.name for path in ROOT.glob("0?_*/main.cu"))
TEXT = (TOOLS / "notebook.ipynb").read_text(encoding="utf-8")
NOTEBOOK = json.loads(TEXT)
SOURCES = {cell["id"]: "".join(cell["source"]) for cell in NOTEBOOK["cells"]}
CODE = {cell["id"]: SOURCES[cell["id"]] for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"}
UNSET = 'REPOSITORY = ""'


def calls(function):
    """The arguments of all calls of a function in the cells, which are constants."""
    found = [node for source in CODE.values() for node in ast.walk(ast.parse(source))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function]
    return [[ast.literal_eval(argument) for argument in node.args] for node in found if isinstance(node.args[0], ast.Constant)]


class File(unittest.TestCase):
    """The file is a notebook as it is handed out: never run, and with one place for the address."""

    def test_format(self):
        self.assertEqual(NOTEBOOK["nbformat"], 4)
        self.assertEqual(len(SOURCES), len(NOTEBOOK["cells"]), "ids are unique")
        self.assertLessEqual(len(SOURCES), 20)
        for cell in NOTEBOOK["cells"]:
            self.assertIn(cell["cell_type"], ("markdown", "code"))
            self.assertEqual(cell["metadata"], {})
        self.assertEqual(TEXT, json.dumps(NOTEBOOK, indent=1, ensure_ascii=False) + "\n", "saved as Jupyter saves it")

    def test_nothing_is_saved_of_a_run(self):
        for cell in NOTEBOOK["cells"]:
            if cell["cell_type"] == "code":
                self.assertEqual(cell["outputs"], [], cell["id"])
                self.assertIsNone(cell["execution_count"], cell["id"])

    def test_one_variable_has_the_address(self):
        self.assertEqual([name for name, source in CODE.items() if UNSET in source], ["get"])
        self.assertEqual([word for word in ("://", "git@", "github") if word in TEXT.lower()], [])
        self.assertEqual(TEXT.count("REPOSITORY = "), 1)

    def test_links_and_tools_are_there(self):
        for target in re.findall(r"\]\((.+?)\)", TEXT):
            path, _, anchor = target.partition("#")
            self.assertTrue((TOOLS / path).exists(), target)
            headings = re.findall(r"^#+ (.*)", (TOOLS / path).read_text(encoding="utf-8"), flags=re.M)
            self.assertIn(anchor, ["", *(heading.lower().replace(" ", "-") for heading in headings)])
        for path in re.findall(r"\btools/[\w./]+\w", TEXT):
            self.assertTrue((ROOT / path).exists(), path)

    def test_experiments(self):
        self.assertEqual([topic for topic, *_ in calls("experiment")], TOPICS)
        for topic, name, *_ in calls("experiment"):
            names = re.search(r"EXPERIMENTS([\w\s]*)", (ROOT / topic / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
            self.assertIn(name, names.split())
            self.assertTrue((ROOT / topic / "results/nvidia-h200.csv").exists())
        for topic, name in re.findall(r'experiment\("(\w+)", "(\w+)"', "".join(SOURCES.values())):
            self.assertTrue((ROOT / topic / f"{name}.cu").exists(), name)


    def test_every_experiment_may_take_the_place_of_these(self):
        for topic in TOPICS:
            found = records.load(ROOT / topic / "results/nvidia-h200.csv")
            for name in sorted({r["experiment"] for r in found if r["kind"] == "measured"}):
                as_called = argparse.Namespace(csv=topic, experiment=name, parameter=None, at=[], metric=[], case=[], over=None,
                                               name=[])
                self.assertTrue(plot.choose(found, as_called)[0], name)


class Cells(InFolder):
    """What the cells ask of the shell."""

    def commands(self, nvcc, gpu, only=CODE):
        """The shell commands of these cells, on a machine like that. What they print is in self.printed."""
        there = {"nvcc": nvcc, "nvidia-smi": gpu}
        started = []

        def popen(command, **_):
            started.append(command)
            return contextlib.nullcontext(mock.Mock(stdout=[], returncode=0))

        display = mock.Mock()
        cells = {"__name__": "__main__"}
        printed = io.StringIO()
        (self.folder / "cuda_memory_measured").mkdir(exist_ok=True)  # so that nothing is cloned
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            with mock.patch("subprocess.Popen", popen), contextlib.redirect_stdout(printed), \
                 mock.patch("subprocess.run", lambda *_, **__: mock.Mock(returncode=0)), \
                 mock.patch("shutil.which", lambda name: name if there[name] else None), \
                 mock.patch.dict("sys.modules", {"IPython": mock.Mock(), "IPython.display": display}):
                for name in only:
                    exec(compile(CODE[name], name, "exec"), cells)
        finally:
            os.chdir(before)
        self.printed = printed.getvalue()
        return [shlex.split(command.split(" | ")[0]) for command in started]

    def test_every_cell_runs_after_the_install_cell(self):
        for name in CODE:
            if name not in ("get", "install"):
                self.assertGreater(len(self.commands(True, True, ["get", "install", name])), 2, name)

    def test_the_commands_are_those_of_the_repository(self):
        options = (ROOT / "common/command_line.cpp").read_text(encoding="utf-8")
        cached = re.findall(r"^(?:option|set)\((\w+) ", (ROOT / "cmake/sample.cmake").read_text(encoding="utf-8"), flags=re.M)
        for nvcc in (False, True):
            for gpu in (False, True):
                for command in self.commands(nvcc, gpu):
                    program, *arguments = command
                    if program == "cmake":
                        for name in re.findall(r"-D(\w+)=", " ".join(arguments)):
                            self.assertIn(name, [*cached, "CMAKE_BUILD_TYPE"])
                    elif program == "python3":
                        self.assertTrue(arguments[0] == "-m" or (ROOT / arguments[0]).exists(), command)
                    elif program.startswith("build/"):
                        topic = pathlib.Path(program).name
                        self.assertEqual(program, f"build/notebook/{topic}/{topic}")
                        self.assertIn(topic, TOPICS)
                        for option in (argument for argument in arguments if argument.startswith("--")):
                            self.assertIn(f'"{option[2:]}"', options)
                    else:
                        self.assertIn(program, ("nvcc", "nvidia-smi"))

    def test_with_a_gpu_the_figures_are_of_this_machine(self):
        commands = self.commands(True, True)
        self.assertEqual(sum("--require-gpu" in command for command in commands), len(TOPICS))
        drawn = [command[2:4] for command in commands if "tools/plot.py" in command]
        self.assertEqual(drawn, [[f"build/notebook/{name}.csv", name] for _, name, *_ in calls("experiment")])
        self.assertNotIn("no GPU", self.printed)

    def test_without_a_gpu_the_figures_are_recorded_ones(self):
        commands = self.commands(True, False)
        self.assertEqual([command for command in commands if "--require-gpu" in command], [])
        drawn = [command[2:4] for command in commands if "tools/plot.py" in command]
        self.assertEqual(drawn, [[f"{topic}/results/nvidia-h200.csv", name] for topic, name, *_ in calls("experiment")])
        self.assertIn("This machine has no GPU.", self.printed)
        self.assertEqual(self.printed.count("Not measured here"), len(TOPICS))

    def test_without_nvcc_nothing_is_built(self):
        for gpu in (False, True):
            commands = self.commands(False, gpu)
            self.assertEqual([command for command in commands if command[0] == "cmake" or command[0].startswith("build/")], [])
            self.assertIn("This machine has no CUDA toolkit (nvcc)", self.printed)
            self.assertEqual(self.printed.count("Not measured here"), len(TOPICS))

    @unittest.skipUnless(matplotlib, "matplotlib is missing")
    def test_the_recorded_figures_are_drawn(self):
        for command in self.commands(False, False):
            if "tools/plot.py" in command:
                output = self.folder / "figure.png"
                command[command.index("-o") + 1] = output
                done = subprocess.run([sys.executable, *command[1:]], cwd=ROOT, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)
                self.assertGreater(output.stat().st_size, 10000)
                output.unlink()

    def test_the_address_has_to_be_set(self):
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        with self.assertRaisesRegex(RuntimeError, "Set REPOSITORY"):
            exec(CODE["get"], {})

    def test_a_command_that_fails_stops_its_cell(self):
        self.commands(True, True, ["get"])
        definitions = {"subprocess": subprocess, "ROOT": self.folder}
        exec(re.search(r"def sh\(.*?\n\n\n", CODE["install"], flags=re.S)[0], definitions)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), self.assertRaisesRegex(RuntimeError, "exit code 3"):
            definitions["sh"]("echo said; echo complained >&2; exit 3")
        self.assertEqual(printed.getvalue(), "$ echo said; echo complained >&2; exit 3\nsaid\ncomplained\n")


class Executed(InFolder):
    """The notebook in Jupyter's kernel, with a clone of this repository as it is committed."""

    @unittest.skipUnless(nbclient and matplotlib, "nbclient, ipykernel, cmake or matplotlib is missing, as pip installs them")
    @unittest.skipUnless((ROOT / ".git").exists() and shutil.which("git"), "this is no clone by git")
    def test_from_the_first_cell_to_the_last(self):
        building = os.environ.get("NOTEBOOK_BUILD") == "1"
        environment = {"PIP_NO_INDEX": "1"}  # what is there will do
        if not building:  # a folder of what the cells need, without nvcc
            for name in ("git", "sh", "uname", "env"):
                (self.folder / "bin").mkdir(exist_ok=True)
                (self.folder / "bin" / name).symlink_to(shutil.which(name))
            (self.folder / "bin/python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            (self.folder / "bin/python3").chmod(0o755)
            environment["PATH"] = str(self.folder / "bin")
        notebook = nbformat.reads(TEXT, 4)
        nbformat.validate(notebook)
        for cell in notebook.cells:
            if cell.id == "get":
                cell.source = cell.source.replace(UNSET, f"REPOSITORY = {ROOT.as_uri()!r}")
        with mock.patch.dict(os.environ, environment):
            nbclient.NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": str(self.folder)}}).execute()
        if os.environ.get("NOTEBOOK_EXECUTED"):
            nbformat.write(notebook, os.environ["NOTEBOOK_EXECUTED"])
        outputs = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
        text = {name: "".join(output.get("text", "") for output in found) for name, found in outputs.items()}
        for name, found in outputs.items():
            images = [output for output in found if "image/png" in output.get("data", {})]
            self.assertEqual(len(images), name.startswith("topic-"), name)
        self.assertIn("to look at: ", text["page"])
        self.assertTrue((self.folder / "cuda_memory_measured/build/notebook/index.html").exists())
        if building:
            self.assertRegex(text["checks"], r"\nself-checks: [1-9]\d* passed, \d+ skipped, 0 failed\n")
        else:
            self.assertIn("no CUDA toolkit (nvcc)", text["install"])


if __name__ == "__main__":
    unittest.main()
