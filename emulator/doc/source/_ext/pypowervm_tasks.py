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

"""What pypowervm's tasks ask for with a suffix: jobs and quick properties.

Read from their source, from calls such as ``adapter.read(kind, uuid,
suffix_type='do', suffix_parm='PowerOn')``.
"""

import ast
import inspect
import pathlib
from collections.abc import Iterable
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple


class Suffixed(NamedTuple):
    """One such call.

    :ivar above: the path before the suffix, with ``{uuid}`` for an id.
    :ivar suffix: ``do`` or ``quick``.
    """

    above: str
    suffix: str
    operation: str


# Of what kinds a wrapper is whose class the source does not say.
_PARTITIONS = ('LogicalPartition', 'VirtualIOServer')


def asked_for(modules: Iterable[ModuleType]) -> Iterator[Suffixed]:
    """Yield what the source of some modules asks for."""
    for module in modules:
        tree = ast.parse(pathlib.Path(str(module.__file__)).read_text())
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for call in ast.walk(function):
                    if isinstance(call, ast.Call):
                        yield from _suffixed(call, module, function)


def _suffixed(
    call: ast.Call, module: ModuleType, function: ast.FunctionDef
) -> Iterator[Suffixed]:
    """Yield what one ``adapter.read(..., suffix_type=..., ...)`` asks for."""
    given = {word.arg: word.value for word in call.keywords}
    if not {'suffix_type', 'suffix_parm'} <= set(given) or not call.args:
        return
    kinds = set(_values(call.args[0], module, function)) or _PARTITIONS
    root_id = (*call.args[1:], given.get('root_id'), None)[0]
    has_id = root_id is not None and ast.unparse(root_id) != 'None'
    for suffix in _values(given['suffix_type'], module, function):
        for operation in _values(given['suffix_parm'], module, function):
            for kind in kinds:
                above = f'uom/{kind}/{{uuid}}' if has_id else f'uom/{kind}'
                yield Suffixed(above, suffix, operation)


def _values(
    node: ast.expr, module: ModuleType, function: ast.FunctionDef
) -> Iterator[str]:
    """Yield the texts that an expression can have, as far as can be seen."""
    if isinstance(node, ast.IfExp):
        yield from _values(node.body, module, function)
        yield from _values(node.orelse, module, function)
        return
    try:
        value = eval(  # noqa: S307 - of pypowervm's own source
            compile(ast.Expression(node), '', 'eval'), vars(module)
        )
    except (NameError, AttributeError):
        yield from _seen_elsewhere(node, module, function)
        return
    if isinstance(value, str):
        yield value


def _seen_elsewhere(
    node: ast.expr, module: ModuleType, function: ast.FunctionDef
) -> Iterator[str]:
    """Yield the texts of a local variable, or of an unknown's attribute."""
    if isinstance(node, ast.Name):
        for other in ast.walk(function):
            if isinstance(other, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == node.id
                for target in other.targets
            ):
                yield from _values(other.value, module, function)
    elif isinstance(node, ast.Attribute) and node.attr != 'schema_type':
        for imported in vars(module).values():
            if inspect.ismodule(imported):
                for _, found in inspect.getmembers(imported, inspect.isclass):
                    value = vars(found).get(node.attr)
                    if isinstance(value, str):
                        yield value
