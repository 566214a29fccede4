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

"""The reader of inventory files under atheris, which looks for tracebacks.

Every text ends in a policy or in problems. Run it from the checkout, for ten
minutes, beginning with the good files of ``tests/fuzz/corpus``::

    python3 -m tests.fuzz.inventory_file -max_total_time=600 \\
        -dict=tests/fuzz/yaml.dict found tests/fuzz/corpus

What it finds is written to the folder that is named first; ``-max_len`` is
4096 unless it is given.
"""

import sys

import atheris

with atheris.instrument_imports():
    import yaml  # noqa: F401

    from nova_powervm import exception
    from nova_powervm import inventory_file
    from nova_powervm.devices import policy


def check(content):
    """Read one file.

    :param content: Its bytes.
    :raises AssertionError: A policy came out that breaks the file's rules,
        or a problem that can't be shown.
    """
    try:
        read = inventory_file.parse(content, 'fuzz')
    except exception.PolicyInvalid as error:
        str(error).encode()
        problems = error.fields['problems']
        if not problems or not all(_is_shown(p) for p in problems):
            raise AssertionError(problems) from error
        return
    for paragraph in read.paragraphs:
        if not _is_good(paragraph):
            raise AssertionError(paragraph)


def _is_shown(problem):
    words = problem.code and problem.what and problem.hint
    return words and str(problem).isprintable()


def _is_good(paragraph):
    if not paragraph.identification or not paragraph.name.isprintable():
        return False
    wrong = [
        policy.problem_with_value(key, value)
        for key, value in paragraph.identification.items()
    ]
    wrong += map(policy.problem_with_trait, paragraph.traits)
    wrong.append(policy.problem_with_resource_class(paragraph.resource_class))
    return not any(wrong)


def main():
    """Hand over to libFuzzer."""
    arguments = list(sys.argv)
    if not any(word.startswith('-max_len') for word in arguments):
        arguments.append('-max_len=4096')
    atheris.Setup(arguments, check)
    atheris.Fuzz()


if __name__ == '__main__':
    main()
