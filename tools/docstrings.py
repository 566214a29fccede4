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

"""Checks that docstrings, comments and pages name what exists.

``docstrings.py FOLDER...`` reads packages, and folders of pages. Each
``:param x:`` has to name a parameter, and each ``:ivar x:`` an attribute. The
name in ``:raises X:`` or ``:class:`X``` has to be known where it is used, in
the function or class or in a module or package around it; ``.module.X`` is in
the package of the module. In pages, names begin at a package.
"""

import ast
import builtins
import itertools
import pathlib
import pkgutil
import re
import sys
from collections.abc import Iterator

import griffe

_FIELD = re.compile(r':(param|[ic]var) ([^:]+):')
#: Groups of entry points (``nova_powervm.disk_drivers``) are no modules.
_TARGET = re.compile(
    r':(?:mod|class|func|meth|data|attr|exc):`~?(?P<role>[^`]+)`'
    r'|:raises (?P<raised>[^:]+):'
    r'|``(?!\w+\.\w+_drivers`)(?P<name>'
    r'(?:nova_powervm|powervm_emulator|devices|lpar|ops|virt)\.[\w.]+)``'
    r'|``(?P<file>'
    r'(?:nova_powervm|conf|devices|lpar|ops|powervm|tool|virt)/[\w/.]*)``'
)


class _Attributes(griffe.Extension):
    """Tells griffe the attributes that methods besides ``__init__`` set."""

    def on_class_members(
        self, *, node: ast.ClassDef, cls: griffe.Class, **others: object
    ) -> None:
        """Add them to the members of a class."""
        for inner in ast.walk(node):
            match inner:
                case ast.Attribute(ast.Name('self'), name, ast.Store()):
                    if name not in cls.members:
                        cls.set_member(name, griffe.Attribute(name))


class Names:
    """The names in packages, read without importing them.

    :param folders: The folders of the packages.
    """

    def __init__(self, folders: list[pathlib.Path]) -> None:
        loader = griffe.GriffeLoader(
            extensions=griffe.load_extensions(_Attributes),
            search_paths=[folder.parent for folder in folders],
        )
        self._all = loader.modules_collection
        self.packages = [loader.load(folder.name) for folder in folders]

    def missing(
        self, line: str, scope: griffe.Object | None = None
    ) -> Iterator[str]:
        """Yield what a line refers to although it does not exist.

        :param scope: What the line is in; None for a page.
        """
        for match in _TARGET.finditer(line):
            name = match[match.lastgroup]
            full_names = (
                full_name
                for around in ([scope] if scope else self.packages)
                for full_name in _full_names(_as_module(name), around)
            )
            if not any(map(self._exists, full_names)):
                yield name

    def _exists(self, name: str) -> bool:
        if name.partition('.')[0] not in self._all.members:
            return _exists_elsewhere(name)
        try:
            return bool(self._all[name])
        except KeyError:
            return False
        except griffe.AliasResolutionError as error:
            rest = name.removeprefix(error.alias.path)
            return _exists_elsewhere(error.alias.target_path + rest)


def _as_module(name: str) -> str:
    """Return the name of the module that a file has, if it is one."""
    path = name.removesuffix('.py').removesuffix('/__init__')
    return path.strip('/').replace('/', '.')


def _full_names(name: str, scope: griffe.Object) -> Iterator[str]:
    """Yield the full names that a name can stand for."""
    if name.startswith('.'):
        while not (scope.is_module and scope.is_init_module):
            scope = scope.parent
        yield scope.path + name
        return
    while scope:
        yield f'{scope.path}.{name}'
        scope = scope.parent
    yield name


def _exists_elsewhere(name: str) -> bool:
    if '.' not in name:
        return hasattr(builtins, name)
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError, ValueError):
        return False
    return True


def _lines(
    packages: list[griffe.Module], folders: list[pathlib.Path]
) -> Iterator[tuple[str, griffe.Object | None, str]]:
    """Yield the place, the scope and the text of each line."""
    for module in itertools.chain.from_iterable(map(_modules, packages)):
        for number, line in enumerate(module.lines, 1):
            scope = _scope(module, number)
            yield f'{module.relative_filepath}:{number}', scope, line
    for page in (page for folder in folders for page in folder.rglob('*.rst')):
        for number, line in enumerate(page.read_text().splitlines(), 1):
            yield f'{page}:{number}', None, line


def _modules(package: griffe.Module) -> Iterator[griffe.Module]:
    yield package
    for member in package.members.values():
        if not member.is_alias and member.is_module:
            yield from _modules(member)


def _scope(around: griffe.Object, number: int) -> griffe.Object:
    """Return the innermost function or class that a line is in."""
    for member in around.members.values():
        if member.is_alias or not (member.is_class or member.is_function):
            continue
        if member.lineno and member.lineno <= number <= member.endlineno:
            return _scope(member, number)
    return around


def _documented(scope: griffe.Object, kind: str) -> set[str]:
    """Return the names that a field of a docstring can have."""
    members = scope.all_members
    makers = [scope, members.get('__init__'), members.get('__new__')]
    if kind == 'param' and (
        functions := [maker for maker in makers if maker and maker.is_function]
    ):
        return {p.name.lstrip('*') for f in functions for p in f.parameters}
    return set(members)


def main(arguments: list[str]) -> int:
    """Print a line for each wrong name; return the exit status."""
    folders = [pathlib.Path(argument) for argument in arguments]
    names = Names([f for f in folders if (f / '__init__.py').exists()])
    problems = []
    for place, scope, line in _lines(names.packages, folders):
        problems += [
            f'{place}: {name} is no {kind} here'
            for kind, name in _FIELD.findall(line)
            if scope and name not in _documented(scope, kind)
        ]
        problems += [
            f'{place}: there is no {name}'
            for name in names.missing(line, scope)
        ]
    print(*problems, sep='\n', end='\n' if problems else '')
    return bool(problems)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
