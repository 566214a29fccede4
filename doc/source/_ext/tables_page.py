# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Directives with tables that the driver itself works by.

.. lpar-operations::

It is made from :mod:`nova_powervm.lpar.operations`.

.. making-steps::

.. changing-steps::

They are made from :mod:`nova_powervm.lpar.steps`.

.. sweep-table::

It is made from :mod:`nova_powervm.ops.sweep`.

.. extra-specs::

It is made from :mod:`nova_powervm.lpar.extra_specs`.

.. exit-codes:: nova-powervm-inventory

It is made from :mod:`nova_powervm.tool.exit_codes`.

.. check-tables::

They are made from :mod:`nova_powervm.tool.check.app` (``MODES``).

.. hmc-checks::

It is made from :mod:`nova_powervm.tool.check.hmc_checks`.
"""

import inspect
import types
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from docutils import nodes
from docutils import statemachine
from sphinx import application
from sphinx.util import docutils

from nova_powervm.lpar import extra_specs
from nova_powervm.lpar import operations
from nova_powervm.lpar import steps
from nova_powervm.ops import sweep
from nova_powervm.tool import exit_codes
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import app as check_command
from nova_powervm.tool.check import hmc_checks
from nova_powervm.tool.check import host as host_checks


def list_operations() -> Iterator[tuple[str, ...]]:
    """Yield the cells of the headings and of each operation on LPARs."""
    yield (
        'Operation',
        'Creates the LPAR',
        'Stops the guest',
        'Adds slots (burns)',
        'Frees slots of a move',
        'Settings',
        'Adapters',
        'Disks',
        'Volumes',
        'After a failure',
    )
    for row in operations.ALL:
        yield (
            row.name,
            row.creates,
            row.stops,
            *('yes' if each else 'no' for each in _allowed(row)),
            row.adapters,
            row.disks,
            row.volumes,
            row.failure,
        )


def _allowed(row: operations.Operation) -> tuple[bool, ...]:
    return row.adds_slots, row.frees_slots, row.settings


def list_making() -> Iterator[tuple[str, ...]]:
    """Yield the cells of the headings and of each step that makes an LPAR."""
    yield 'Step', 'What it does'
    for step in steps.MAKING:
        yield _explain(step)


def list_changing() -> Iterator[tuple[str, ...]]:
    """Yield the cells of the headings and of each step that changes one."""
    yield 'Step', 'What it does', 'Needs the LPAR off'
    for step in steps.CHANGING:
        yield *_explain(step), 'yes' if step.needs_off else 'no'


def _explain(step: type[steps.Step]) -> tuple[str, str]:
    return f'``{step.__name__}``', (inspect.getdoc(step) or '').splitlines()[0]


def list_sweep() -> Iterator[tuple[str, ...]]:
    """Yield the cells of the headings and of each row of the sweep."""
    yield 'What', 'Known by', 'Unwanted', 'What is done', 'When, and why then'
    for row in sweep.TABLE:
        when = ' and '.join(moment.value for moment in row.when)
        yield (
            row.kind[0].upper() + row.kind[1:],
            row.ours,
            row.unwanted,
            row.done,
            f'{when[0].upper()}{when[1:]}. {row.why}',
        )


def list_extra_specs() -> Iterator[tuple[str, ...]]:
    """Yield the cells of the headings and of each extra spec."""
    yield 'Extra spec', 'What it says', 'Without it', 'REST element'
    for row in extra_specs.TABLE:
        value = row.value.form[0].upper() + row.value.form[1:]
        yield (
            f'``{row.key}``',
            f'{row.text} {value}.',
            row.default,
            row.element.rpartition('/')[2] or 'None',
        )


def list_checks(
    checks: Sequence[answers.Check[Any]],
    first: int = 1,
) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the headings and of each check of a mode.

    :param first: The number of the first.
    """
    yield '', 'What the driver assumes', 'How it is seen', 'If it differs'
    for number, check in enumerate(checks, first):
        yield (
            str(number),
            f'**{check.title}.** {check.assumes}',
            f'{check.seen[0].upper()}{check.seen[1:]}'
            if check.seen[0] != '`'
            else check.seen,
            f'*{check.meaning.capitalize()}.* {check.otherwise}',
        )


def list_exit_codes(program: str) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the headings and of each command's exit codes."""
    commands = exit_codes.TABLE[program]
    if list(commands) == ['']:
        yield 'Code', 'Meaning'
        for code, meaning in commands[''].items():
            yield str(code), meaning
        return
    yield 'Command', 'Codes'
    for names, codes in commands.items():
        marked = '``' + names.replace(', ', '``, ``') + '``'
        meanings = (f'{code}: {meaning}.' for code, meaning in codes.items())
        yield 'all' if names == 'all' else marked, ' '.join(meanings)


class _Table(docutils.SphinxDirective):
    """Inserts a table."""

    module: types.ModuleType
    #: Those of the columns, as for list-table; empty to let Sphinx choose.
    widths = ''

    def list_rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of the headings and of each row."""
        raise NotImplementedError()

    def list_lines(self) -> Iterator[str]:
        """Yield the lines of the table."""
        return self.table(self.list_rows())

    def table(
        self, rows: Iterable[tuple[str, ...]], title: str = ''
    ) -> Iterator[str]:
        """Yield the lines of a table with rows, the headings first."""
        yield f'.. list-table:: {title}'
        yield '   :header-rows: 1'
        if self.widths:
            yield f'   :widths: {self.widths}'
        yield ''
        for row in rows:
            marks = ['   * -'] + ['     -'] * (len(row) - 1)
            for mark, cell in zip(marks, row, strict=True):
                yield f'{mark} {cell}'

    def run(self) -> list[nodes.Node]:
        """Return the nodes."""
        lines = [*self.list_lines()]
        section = nodes.section()
        section.document = self.state.document
        source = statemachine.StringList(lines, source=self.module.__file__)
        self.state.nested_parse(source, 0, section)
        return list(section.children)


class Operations(_Table):
    """Inserts the table of the operations on LPARs."""

    module = operations
    list_rows = staticmethod(list_operations)


class MakingSteps(_Table):
    """Inserts the table of the steps that make an LPAR, in their order."""

    module = steps
    list_rows = staticmethod(list_making)


class ChangingSteps(_Table):
    """Inserts the table of the steps that change an LPAR, in their order."""

    module = steps
    list_rows = staticmethod(list_changing)


class ExtraSpecs(_Table):
    """Inserts the table of the extra specs of this driver."""

    module = extra_specs
    list_rows = staticmethod(list_extra_specs)


class Sweep(_Table):
    """Inserts the table of what the driver removes."""

    module = sweep
    list_rows = staticmethod(list_sweep)


class CheckTables(_Table):
    """Inserts the tables of the checks of each mode."""

    module = check_command
    widths = '4 36 28 32'

    def list_lines(self) -> Iterator[str]:
        """Yield the lines of the tables."""
        for mode, checks in check_command.MODES.items():
            if mode != check_command.HMC:
                yield from self.table(list_checks(checks), f'``{mode}``')
                yield ''


class HmcChecks(_Table):
    """Inserts the table of the questions for an HMC."""

    module = hmc_checks
    widths = CheckTables.widths

    @staticmethod
    def list_rows() -> Iterator[tuple[str, ...]]:
        """Yield the headings and each check; they follow those of a host."""
        return list_checks(hmc_checks.CHECKS, len(host_checks.CHECKS) + 1)


class ExitCodes(_Table):
    """Inserts the table of the exit codes of a program."""

    module = exit_codes
    required_arguments = 1
    widths = '20 80'

    def list_rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of the headings and of each row."""
        return list_exit_codes(self.arguments[0])


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directives to Sphinx."""
    app.add_directive('lpar-operations', Operations)
    app.add_directive('making-steps', MakingSteps)
    app.add_directive('changing-steps', ChangingSteps)
    app.add_directive('sweep-table', Sweep)
    app.add_directive('extra-specs', ExtraSpecs)
    app.add_directive('exit-codes', ExitCodes)
    app.add_directive('check-tables', CheckTables)
    app.add_directive('hmc-checks', HmcChecks)
    return {'parallel_read_safe': True}
