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

"""The order in which providers are taken."""

import concurrent.futures
import subprocess
import sys
import textwrap
import unittest

from nova_powervm.scheduler import turns

#: Eight workers, forked as by nova-scheduler, choose one of many candidates.
FORKED = textwrap.dedent("""
    import os, sys
    from nova_powervm.scheduler import turns
    order = turns.Turns()
    for _ in range(8):
        if not os.fork():
            chosen = order.take([[str(n)] for n in range(10 ** 4)])
            os.write(1, f'{chosen}\\n'.encode())
            os._exit(0)
        os.wait()
    """)


def in_order():
    """Return turns that take the first of equal candidates."""
    return turns.Turns(tiebreak=lambda: 0)


def take(order, *candidates):
    """Take one of candidates like 'ab', with the providers a and b."""
    return candidates[order.take(candidates)]


class TurnsTest(unittest.TestCase):
    def test_providers_take_turns(self):
        order = in_order()

        taken = [take(order, *'abc') for _ in range(6)]

        self.assertEqual(list('abcabc'), taken)

    def test_latest_turn_of_group_counts(self):
        order = in_order()
        take(order, 'ab')
        take(order, 'cd')

        # Each of the others has a provider that was taken last.
        self.assertEqual('ab', take(order, 'ac', 'bd', 'cd', 'ab'))

    def test_equal_candidates_are_chosen_by_lowest_number(self):
        numbers = iter([0.5, 0.2, 0.9])
        order = turns.Turns(tiebreak=lambda: next(numbers))

        self.assertEqual('b', take(order, *'abc'))

    def test_choice_is_no_turn(self):
        order = in_order()

        self.assertEqual([0, 0], [order.choose('ab') for _ in range(2)])
        self.assertEqual('a', take(order, *'ab'))
        self.assertEqual([1, 1], [order.choose('ab') for _ in range(2)])

    def test_providers_taken_last_are_remembered(self):
        order = turns.Turns(limit=2, tiebreak=lambda: 0)
        for provider in 'abac':
            take(order, provider)

        # That b was taken is forgotten, so it is equal to one that was not.
        self.assertEqual(0, order.choose('bx'))
        self.assertEqual(1, order.choose('ax'))
        self.assertEqual(1, order.choose('cx'))

    def test_group_larger_than_memory_is_taken(self):
        order = turns.Turns(limit=2, tiebreak=lambda: 0)

        self.assertEqual('abc', take(order, 'abc'))

    def test_parallel_requests_take_different_providers(self):
        order = turns.Turns()
        providers = [chr(0x4E00 + number) for number in range(200)]
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            taken = list(
                pool.map(lambda _: take(order, *providers), providers)
            )

        self.assertEqual(providers, sorted(taken))

    def test_forked_workers_choose_different_candidates(self):
        chosen = subprocess.run(
            (sys.executable, '-c', FORKED),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()

        self.assertEqual(8, len(chosen))
        # Two of them may by chance.
        self.assertGreater(len(set(chosen)), 6)
