"""Generators that fail, fall silent or talk beside the point."""

import shutil
import sys
from pathlib import Path

import psutil
import pytest

from raykeeper.bench.errors import BenchError
from raykeeper.bench.loads import processes
from raykeeper.bench.loads.processes import LoadProcesses, compile_java
from raykeeper.bench.loads.task import LoadTask

TASK = LoadTask(kind="mixed", client="kazoo", where="", number=0)
SPEAKS = "print('INFO started'); print('ready'); input(); print('{\"seconds\":1,\"cpu_s\":0.5}')"


def python(program: str) -> list[str]:
    """A generator in these words; what it is told does not matter to it."""
    return [sys.executable, "-c", f"import sys, time\n{program}"]


def test_reports_come_in_the_order_of_the_tasks() -> None:
    program = (
        "number = next(w for w in sys.argv if w.startswith('number='))[7:]\n"
        "print('ready', flush=True); input()\n"
        "print('{\"seconds\":' + number + ',\"cpu_s\":0}')"
    )
    tasks = [LoadTask(kind="mixed", client="kazoo", where="", number=n) for n in (3, 1, 2)]
    with LoadProcesses(python(program), tasks) as load:
        load.begin()
        assert [report.seconds for report in load.reports(30.0)] == [3, 1, 2]


def test_a_load_without_an_end_is_stopped() -> None:
    program = (
        "print('ready', flush=True); input(); told = input()\n"
        "print('{\"seconds\":1,\"cpu_s\":0,\"done\":' + str(int(told == 'stop')) + '}')"
    )
    with LoadProcesses(python(program), [TASK]) as load:
        load.begin()
        load.stop()
        assert load.reports(30.0)[0].done == 1


def test_a_repeated_load_is_told_each_round_and_its_end(tmp_path: Path) -> None:
    program = (
        "told = []\n"
        "while not told or told[-1] != 'end':\n"
        "    print('ready', flush=True); told.append(input())\n"
        "    print('{\"seconds\":' + str(len(told)) + ',\"cpu_s\":0}', flush=True)\n"
        f"open({str(tmp_path / 'told')!r}, 'w').write(' | '.join(told))"
    )
    with LoadProcesses(python(program), [TASK]) as load:
        load.begin(seconds=2.5, reads_percent=50)
        assert load.reports(30.0)[0].seconds == 1
        load.begin()
        assert load.reports(30.0)[0].seconds == 2
    assert (tmp_path / "told").read_text() == "seconds=2.5 reads_percent=50 | go | end"


def test_a_round_waits_until_every_process_is_ready_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "print('ready', flush=True); input()\n"
        'print(\'{"seconds":1,"cpu_s":0}\', flush=True)\n'
        "if 'number=1' in sys.argv: time.sleep(600)\n"
        "print('ready', flush=True); input()"
    )
    tasks = [LoadTask(kind="mixed", client="kazoo", where="", number=n) for n in (0, 1)]
    with LoadProcesses(python(program), tasks) as load:
        load.begin()
        load.reports(30.0)
        monkeypatch.setattr(processes, "START_S", 0.1)
        with pytest.raises(BenchError, match=r"printed anything for 0\.1 s"):
            load.begin()


def test_a_generator_that_ended_by_itself_is_no_error() -> None:
    with LoadProcesses(python(SPEAKS), [TASK, TASK]) as load:
        load.begin()
        assert len(load.reports(30.0)) == 2
        for process in load._processes:
            process.wait(30.0)


def test_other_lines_are_ignored() -> None:
    with LoadProcesses(python(SPEAKS), [TASK]) as load:
        load.begin()
        assert load.reports(30.0)[0].cpu_s == 0.5


def test_a_generator_that_ends_before_it_is_ready_is_reported_with_its_output() -> None:
    with pytest.raises(BenchError, match="a load generator failed: no servers"):
        LoadProcesses(python("sys.exit('no servers')"), [TASK])


def test_a_generator_that_ends_without_a_report_is_an_error() -> None:
    program = "print('ready', flush=True); input(); sys.exit('lost its session')"
    with LoadProcesses(python(program), [TASK]) as load:
        load.begin()
        with pytest.raises(BenchError, match="lost its session"):
            load.reports(30.0)


def test_a_generator_that_is_killed_in_the_middle_of_its_report_is_an_error() -> None:
    program = (
        "import os\n"
        "print('ready', flush=True); input()\n"
        "print('{\"seconds\":1,', end='', flush=True); os.kill(os.getpid(), 9)"
    )
    with LoadProcesses(python(program), [TASK]) as load:
        load.begin()
        with pytest.raises(BenchError, match="its exit status is -9"):
            load.reports(30.0)


def test_a_silent_generator_times_out() -> None:
    program = "print('ready', flush=True); time.sleep(600)"
    with LoadProcesses(python(program), [TASK]) as load:
        load.begin()
        with pytest.raises(BenchError, match=r"for 0\.1 s"):
            load.reports(0.1)
        pids = [process.pid for process in load._processes]
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_failing_generator_ends_the_others() -> None:
    program = (
        "if 'number=1' in sys.argv: sys.exit('it fails')\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    children = set(psutil.Process().children())
    tasks = [LoadTask(kind="mixed", client="kazoo", where="", number=n) for n in (0, 1)]
    with pytest.raises(BenchError, match="it fails"):
        LoadProcesses(python(program), tasks)
    assert set(psutil.Process().children()) == children


def test_java_that_does_not_compile_is_an_error(tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("there is no javac")
    source = tmp_path / "Wrong.java"
    source.write_text("class Wrong { int x = true; }")
    with pytest.raises(BenchError, match="incompatible types"):
        compile_java(source, "", tmp_path)
