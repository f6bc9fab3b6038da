#!/usr/bin/env python3
"""A whole session with OpenAI's client, as it comes from PyPI.

    openai_session.py URL [KEY]

The server at URL has a model en-hi. With KEY it wants keys, and KEY is one. Exits with 77 where the package is missing.
"""
import math
import sys

try:
    import openai
    from openai.types import Completion, CompletionChoice, CompletionUsage, Model
    from openai.types.completion_choice import Logprobs
except ImportError as error:
    print(f'skipped: {error}', file=sys.stderr)
    sys.exit(77)

PROMPT = 'how are you'


def check(completion):
    assert isinstance(completion, Completion), completion
    assert completion.object == 'text_completion' and isinstance(completion.id, str) and completion.id, completion
    assert isinstance(completion.created, int) and completion.model == 'en-hi', completion
    assert isinstance(completion.system_fingerprint, str) and len(completion.system_fingerprint) == 32, completion
    assert all(isinstance(choice, CompletionChoice) for choice in completion.choices), completion
    assert all(isinstance(choice.text, str) for choice in completion.choices), completion


def check_whole(completion, choices=1):
    check(completion)
    assert [choice.index for choice in completion.choices] == list(range(choices)), completion
    assert all(choice.finish_reason in ('stop', 'length') for choice in completion.choices), completion
    usage = completion.usage
    assert isinstance(usage, CompletionUsage), usage
    assert usage.prompt_tokens > 0 and usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage


def texts(completion):
    return [choice.text for choice in completion.choices]


def check_logprobs(choice):
    logprobs = choice.logprobs
    assert isinstance(logprobs, Logprobs), choice
    length = len(logprobs.tokens)
    assert length > 0 and len(logprobs.token_logprobs) == len(logprobs.text_offset) == length, logprobs
    assert all(isinstance(token, str) for token in logprobs.tokens), logprobs
    assert all(value is None or value <= 1e-5 and math.isfinite(value) for value in logprobs.token_logprobs), logprobs
    assert all(isinstance(offset, int) for offset in logprobs.text_offset), logprobs
    assert logprobs.text_offset == sorted(logprobs.text_offset), logprobs
    if logprobs.top_logprobs is not None:
        assert len(logprobs.top_logprobs) == length, logprobs


def check_stream(client, **request):
    """The events of a stream, put together, are the answer without one."""
    whole = client.completions.create(model='en-hi', **request)
    events = list(client.completions.create(model='en-hi', stream=True, **request))
    assert events, 'a stream without events'
    joined, ends = {}, {}
    for event in events:
        check(event)
        assert event.usage is None
        for choice in event.choices:
            joined[choice.index] = joined.get(choice.index, '') + choice.text
            assert choice.index not in ends, 'a choice goes on after its end'
            if choice.finish_reason is not None:
                ends[choice.index] = choice.finish_reason
    assert joined == dict(enumerate(texts(whole))), (joined, whole)
    assert ends == {choice.index: choice.finish_reason for choice in whole.choices}, (ends, whole)
    assert len({event.id for event in events}) == 1, 'the events of one answer have one id'


def refused(kind, call, *arguments, param=None, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        assert isinstance(error.body, dict), error.body
        assert isinstance(error.body['message'], str) and error.body['message'], error.body
        assert '\n' not in error.body['message'], error.body
        assert isinstance(error.body['type'], str), error.body
        assert 'code' in error.body and 'param' in error.body, error.body
        assert param is None or error.param == param, (param, error.body)
        return error
    raise AssertionError(f'{arguments} {named} was not refused')


def main(url, key=None):
    client = openai.OpenAI(base_url=url + '/v1', api_key=key or 'any', max_retries=0, timeout=60)
    create = client.completions.create

    plain = create(model='en-hi', prompt=PROMPT)
    check_whole(plain)
    assert plain.choices[0].text and plain.choices[0].logprobs is None, plain
    again = create(model='en-hi', prompt=PROMPT)
    assert texts(again) == texts(plain) and again.system_fingerprint == plain.system_fingerprint, again
    assert texts(create(model='en-hi', prompt=PROMPT, temperature=0)) == texts(plain)
    assert texts(create(model='en-hi', prompt=PROMPT, user='someone', top_p=1)) == texts(plain)

    # n choices for each prompt, in the prompts' order.
    several = create(model='en-hi', prompt=[PROMPT, 'thank you'], n=2)
    check_whole(several, 4)
    assert texts(create(model='en-hi', prompt=PROMPT, n=2)) == texts(several)[:2], several
    drawn = create(model='en-hi', prompt=PROMPT, n=3, temperature=1.5, top_p=0.9, seed=7)
    check_whole(drawn, 3)
    assert texts(create(model='en-hi', prompt=PROMPT, n=3, temperature=1.5, top_p=0.9, seed=7)) == texts(drawn)

    with_logprobs = create(model='en-hi', prompt=PROMPT, logprobs=1, n=2)
    check_whole(with_logprobs, 2)
    for choice in with_logprobs.choices:
        check_logprobs(choice)

    lines = create(model='en-hi', prompt=PROMPT + '\n' + PROMPT, logprobs=1)
    check_logprobs(lines.choices[0])
    assert len(lines.choices[0].logprobs.tokens) == 2 * len(with_logprobs.choices[0].logprobs.tokens), lines

    short = create(model='en-hi', prompt=PROMPT, max_tokens=2)
    check_whole(short)
    assert short.usage.completion_tokens <= 2, short
    assert len(short.choices[0].text) <= len(plain.choices[0].text) or short.choices[0].finish_reason == 'stop', short

    assert texts(create(model='en-hi', prompt=PROMPT, echo=True)) == [PROMPT + plain.choices[0].text]

    # The text ends before a stop sequence: here, before the second character of the answer.
    middle = plain.choices[0].text[1:2]
    if middle.strip():
        stopped = create(model='en-hi', prompt=PROMPT, stop=[middle, 'never'])
        check_whole(stopped)
        assert middle not in stopped.choices[0].text and stopped.choices[0].finish_reason == 'stop', stopped

    check_stream(client, prompt=PROMPT)
    check_stream(client, prompt=[PROMPT, 'thank you'])
    check_stream(client, prompt=PROMPT, temperature=1.0, seed=3)
    check_stream(client, prompt=PROMPT, echo=True, max_tokens=5)
    events = list(create(model='en-hi', prompt=PROMPT, stream=True, stream_options={'include_usage': True}))
    assert events[-1].choices == [] and isinstance(events[-1].usage, CompletionUsage), events[-1]
    assert events[-1].usage == plain.usage, events[-1]
    # A stream that is left early does not harm the next request.
    with create(model='en-hi', prompt=PROMPT, stream=True) as stream:
        next(iter(stream))
    assert texts(create(model='en-hi', prompt=PROMPT)) == texts(plain)

    models = list(client.models.list())
    assert all(isinstance(model, Model) and model.object == 'model' for model in models), models
    assert 'en-hi' in [model.id for model in models], models
    model = client.models.retrieve('en-hi')
    assert isinstance(model, Model) and model.id == 'en-hi' and isinstance(model.created, int), model
    assert isinstance(model.owned_by, str) and model in models, model

    refused(openai.NotFoundError, create, model='none', prompt=PROMPT, param='model')
    refused(openai.NotFoundError, client.models.retrieve, 'none')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, temperature=-1, param='temperature')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, n=0, param='n')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, n=1000, param='n')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, max_tokens=-1, param='max_tokens')
    refused(openai.BadRequestError, create, model='en-hi', prompt=[1, 2, 3], param='prompt')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, suffix='x', param='suffix')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, best_of=3, param='best_of')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, logprobs=2, param='logprobs')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, logprobs=1, echo=True, param='logprobs')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, stop=list('abcde'), param='stop')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, top_p=0.5, param='top_p')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, logit_bias={'5': 1}, param='logit_bias')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, frequency_penalty=1.0,
            param='frequency_penalty')
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, stream=True, temperature=-1)
    refused(openai.BadRequestError, create, model='en-hi', prompt=PROMPT, stream=True, n=2, param='n')
    asked = client.completions.with_raw_response.create(model='en-hi', prompt=PROMPT,
                                                        extra_headers={'X-Request-Id': 'session-7'})
    assert asked.headers['x-request-id'] == 'session-7' and asked.headers['etag'], asked.headers

    if key:
        wrong = openai.OpenAI(base_url=url + '/v1', api_key='wrong', max_retries=0)
        refused(openai.AuthenticationError, wrong.completions.create, model='en-hi', prompt=PROMPT)
        refused(openai.AuthenticationError, wrong.models.list)
        refused(openai.AuthenticationError, wrong.completions.create, model='en-hi', prompt=PROMPT,
                extra_headers={'Authorization': openai.Omit()})


main(*sys.argv[1:])
print('openai: passed')
