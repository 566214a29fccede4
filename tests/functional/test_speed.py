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

"""What is kept of Placement's answers does not outlive a change."""

import unittest

from keystoneauth1 import adapter

from tests.functional import placement_app


class Placement:
    """Answers with the number of the request; a WSGI application."""

    def __init__(self):
        self.status = '200 OK'
        self.requests = 0
        self.on_request = lambda: None

    def __call__(self, environ, start_response):
        self.requests += 1
        number = self.requests
        self.on_request()
        start_response(self.status, [('Content-Type', 'text/plain')])
        return [str(number).encode()]


class KeptAnswersTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.placement = Placement()
        self.kept = placement_app.KeptAnswers(self.placement)

    def ask(
        self,
        path='/resource_providers',
        method='GET',
        kept=None,
        **given,
    ):
        """Return the number that the request has, or the one before had."""
        environ = {
            'REQUEST_METHOD': method,
            'PATH_INFO': path,
        } | given
        (number,) = (kept or self.kept)(environ, lambda *_: None)
        return int(number)

    def test_answer_is_kept_for_same_question_only(self):
        self.assertEqual(1, self.ask())
        self.assertEqual(1, self.ask())
        self.assertEqual(2, self.ask('/traits'))
        self.assertEqual(3, self.ask(QUERY_STRING='in_tree=it'))
        version = {'HTTP_OPENSTACK_API_VERSION': 'placement 1.39'}
        self.assertEqual(4, self.ask(**version))
        self.assertEqual(4, self.ask(**version))

    def test_answer_is_not_kept_where_the_process_keeps_none(self):
        self.kept.keeps = False

        self.assertEqual([1, 2], [self.ask(), self.ask()])

    def test_write_forgets_answers_of_all_placements(self):
        other = placement_app.KeptAnswers(Placement())
        for method in ('PUT', 'POST', 'DELETE'):
            with self.subTest(method=method):
                before = self.ask()
                self.ask(method=method, kept=other)
                self.assertLess(before, self.ask())

    def test_failed_write_forgets_answers(self):
        before = self.ask()

        def fail():
            raise ConnectionError

        self.placement.on_request = fail
        with self.assertRaises(ConnectionError):
            self.ask(method='PUT')
        self.placement.on_request = lambda: None

        self.assertLess(before, self.ask())

    def test_answer_given_during_write_is_not_kept(self):
        other = placement_app.KeptAnswers(Placement())
        self.placement.on_request = lambda: self.ask(method='PUT', kept=other)

        self.assertEqual([1, 2], [self.ask(), self.ask()])

    def test_error_is_not_kept(self):
        self.placement.status = '503 Service Unavailable'

        self.assertEqual([1, 2], [self.ask(), self.ask()])


class SessionTest(unittest.TestCase):
    def test_answer_is_that_of_the_application(self):
        seen = {}

        def app(environ, start_response):
            seen.update(environ, body=environ['wsgi.input'].read())
            start_response('409 Conflict', [('Content-Type', 'text/plain')])
            return [b'taken']

        placement_app.KeptAnswers(app)
        session = placement_app.Session('http://here/placement')

        answer = adapter.Adapter(session, raise_exc=False).put(
            '/a%20b?name=c d', json=[1], headers={'x-auth-token': 'admin'}
        )

        self.assertEqual((409, 'taken'), (answer.status_code, answer.text))
        self.assertEqual('text/plain', answer.headers['content-type'])
        self.assertEqual('/a b', seen['PATH_INFO'])
        self.assertEqual('name=c%20d', seen['QUERY_STRING'])
        self.assertEqual('admin', seen['HTTP_X_AUTH_TOKEN'])
        self.assertEqual(b'[1]', seen['body'])
