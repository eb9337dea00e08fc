"""What a person sees of a run: what changed, what failed, what is still running, and the verdict last."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: Ansible's own screen output, with less noise, a sign of life, and the verdict last
version_added: 0.1.0
author: trainrig contributors (@trainrig)
description:
  - Prints what P(ansible.builtin.default#callback) prints, in the same words, except that hosts on which a task found
    nothing to do are not listed.
  - On a terminal the running task, the hosts that have not answered and the elapsed time are shown in one line that
    is redrawn. Elsewhere a plain line says from time to time that a long task is still running.
  - Says how long a slow task took.
  - The play recap is Ansible's own and stays in standard output. After it the verdict and the path of the report are
    printed, when M(trainrig.gpu.report) made one.
extends_documentation_fragment:
  - ansible.builtin.default_callback
  - ansible.builtin.result_format_callback
requirements:
  - rich, for the colours and the spinner; without it the line is plain.
options:
  display_ok_hosts:
    description: List hosts on which a task found nothing to do. Switched on by C(-v).
    type: bool
    default: false
    env:
      - name: ANSIBLE_DISPLAY_OK_HOSTS
    ini:
      - key: display_ok_hosts
        section: defaults
  display_skipped_hosts:
    description: List hosts on which a task was skipped. Switched on by C(-vv).
    type: bool
    default: false
    env:
      - name: ANSIBLE_DISPLAY_SKIPPED_HOSTS
    ini:
      - key: display_skipped_hosts
        section: defaults
  result_format:
    description: How results are printed. YAML keeps a message of several lines readable.
    type: str
    default: yaml
    choices: [json, yaml]
    env:
      - name: ANSIBLE_CALLBACK_RESULT_FORMAT
    ini:
      - key: callback_result_format
        section: defaults
  slow_task:
    description: Say how long a task took when it took longer than this many seconds.
    type: float
    default: 2
    env:
      - name: TRAINRIG_PROGRESS_SLOW_TASK
    ini:
      - key: slow_task
        section: trainrig_progress
  still_running_every:
    description: Without a terminal, say after this many seconds, and again, that a task is still running.
    type: float
    default: 30
    env:
      - name: TRAINRIG_PROGRESS_STILL_RUNNING_EVERY
    ini:
      - key: still_running_every
        section: trainrig_progress
"""

import atexit
import threading
from typing import Any

from ansible import constants as C
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as DefaultCallback
from ansible.utils.display import Display
from ansible_collections.trainrig.gpu.plugins.plugin_utils.ticker import Running, Ticker, seconds

#: Tasks that talk with the person at the terminal: nothing may be drawn over their question.
INTERACTIVE = {"pause", "ansible.builtin.pause", "ansible.legacy.pause"}
DEBUG = {"debug", "ansible.builtin.debug", "ansible.legacy.debug"}
REPORT = "trainrig.gpu.report"
VERDICT_COLOURS = {"pass": C.COLOR_OK, "warn": C.COLOR_WARN}


class CallbackModule(DefaultCallback):  # type: ignore[misc]
    """Ansible's default output, quieter, with a sign of life."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "trainrig.gpu.progress"

    def __init__(self) -> None:
        super().__init__()
        self._ticker: Ticker | None = None
        self._running: Running | None = None
        self._report: dict[str, Any] | None = None

    def set_options(self, task_keys: Any = None, var_options: Any = None, direct: Any = None) -> None:
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        for level, option in enumerate(("display_ok_hosts", "display_skipped_hosts")):
            if self._display.verbosity > level:
                self._plugin_options[option] = True

    # --- the sign of life

    def _ensure_ticker(self) -> Ticker:
        if self._ticker is None:
            display = self._display
            lock = getattr(display, "_lock", None) or threading.RLock()
            ticker = Ticker(lock, display.display, self.get_option("still_running_every"))
            self._ticker = ticker
            print_line = display.display

            def clear_first(*args: Any, **kwargs: Any) -> None:
                # Everything that Ansible prints comes through here, warnings and messages of workers included.
                ticker.clear()
                print_line(*args, **kwargs)

            if isinstance(display, Display):
                display.display = clear_first
            ticker.start()
            atexit.register(ticker.stop)
        return self._ticker

    def _task_begins(self, task: Any) -> None:
        self._task_ends()
        self._running = Running(name=task.get_name().strip(), silent=task.action in INTERACTIVE)
        self._ensure_ticker().begin(self._running)

    def _task_ends(self) -> None:
        running, self._running = self._running, None
        if self._ticker is not None:
            self._ticker.begin(None)
        if running is not None and not running.silent and running.elapsed() > self.get_option("slow_task"):
            self._display.display(f"[{running.name}] took {seconds(running.elapsed())}", color=C.COLOR_VERBOSE)

    def _host_done(self, result: Any) -> None:
        if self._running is not None and result.host.get_name() in self._running.waiting:
            self._running.waiting.remove(result.host.get_name())

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        super().v2_runner_on_start(host, task)
        if self._running is not None:
            self._running.waiting.append(host.get_name())

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._task_ends()
        super().v2_playbook_on_play_start(play)

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self._task_begins(task)
        super().v2_playbook_on_task_start(task, is_conditional)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._task_begins(task)
        super().v2_playbook_on_handler_task_start(task)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        if self._display.verbosity > 0:
            super().v2_playbook_on_include(included_file)

    # --- results

    def v2_runner_on_ok(self, result: Any) -> None:
        self._host_done(result)
        if self._keep_report(result):
            return
        if not self.get_option("display_ok_hosts"):
            if isinstance(result.task, TaskInclude):
                return  # its tasks speak for themselves
            if result.task.action in DEBUG and result.result.get("_ansible_verbose_always"):
                self._print_message(result)
                return
            # The default output drops the warnings of a result that it does not list.
            self._handle_warnings_and_exception(result)
        super().v2_runner_on_ok(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._host_done(result)
        if not self._keep_report(result):
            super().v2_runner_on_failed(result, ignore_errors)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._host_done(result)
        super().v2_runner_on_skipped(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._host_done(result)
        super().v2_runner_on_unreachable(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        if not self.get_option("display_ok_hosts"):
            if result.task.action in DEBUG:
                self._print_message(result)
                return
            self._handle_warnings_and_exception(result)
        super().v2_runner_item_on_ok(result)

    def _print_message(self, result: Any) -> None:
        """The message of a debug task, its lines as they are."""
        if self._last_task_banner != result.task._uuid:
            self._print_task_banner(result.task)
        self._handle_warnings_and_exception(result)
        if result.task.loop and "results" in result.result:
            return  # each item was printed as it came
        self._clean_results(result.result, result.task.action)
        message = result.result.get("msg")
        lines = message if isinstance(message, list) else [message]
        if message is not None and all(isinstance(line, str) for line in lines):
            text = "\n".join(lines)
            text = f"\n{text}" if "\n" in text else f" {text}"
        else:
            text = f" {self._dump_results(result.result)}"
        self._display.display(f"ok: [{self.host_label(result)}] =>{text}", color=C.COLOR_OK)

    # --- the verdict

    def _keep_report(self, result: Any) -> bool:
        """True for a result of the report action, which is printed after the recap instead of here."""
        if REPORT not in (result.task.action, getattr(result.task, "resolved_action", None)):
            return False
        if "verdict" not in result.result:
            return False
        self._handle_warnings(result.result)
        self._report = {key: result.result.get(key) for key in ("verdict", "report", "reason", "trouble")}
        return True

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._task_ends()
        if self._ticker is not None:
            self._ticker.stop()
        super().v2_playbook_on_stats(stats)
        if self._report is not None:
            verdict = str(self._report["verdict"])
            colour = VERDICT_COLOURS.get(verdict, C.COLOR_ERROR)
            reason = self._report.get("reason")
            self._display.display(f"verdict: {verdict}" + (f" ({reason})" if reason else ""), color=colour)
            if self._report.get("report"):
                self._display.display(f"report: {self._report['report']}")
            elif self._report.get("trouble"):
                self._display.display(f"report: {self._report['trouble']}", color=C.COLOR_ERROR)
