#!/usr/bin/env python3
"""A whole session with DeepL's client, as it comes from PyPI.

    deepl_session.py URL [KEY]

The server at URL has a model en-hi. With KEY it wants keys, and KEY is one. Exits with 77 where the package is missing.
"""
import sys

try:
    import deepl
    from deepl import http_client
except ImportError as error:
    print(f'skipped: {error}', file=sys.stderr)
    sys.exit(77)

http_client.max_network_retries = 0  # a failure is to be seen, not waited out
TEXTS = ['how are you', 'I am fine, thank you', 'where are they going?\nthe theory', ' ', '& = % + 😀']


def refused(call, *arguments, word, **named):
    """A request for what the service does not do is a 400 whose message names it."""
    try:
        call(*arguments, **named)
    except deepl.DeepLException as error:
        assert error.http_status_code in (400, 422), (named, error)
        assert not isinstance(error, (deepl.AuthorizationException, deepl.QuotaExceededException)), error
        assert word in str(error), f'{named}: the message names no {word}: {error}'
        return
    raise AssertionError(f'{named} was not refused')


def main(url, key=None):
    client = deepl.DeepLClient(key or 'any', server_url=url)
    one = client.translate_text(TEXTS[0], source_lang='EN', target_lang='HI')
    assert isinstance(one, deepl.TextResult), one
    assert isinstance(one.text, str) and one.text, one.text
    assert one.detected_source_lang == 'EN', one.detected_source_lang
    assert one.billed_characters == len(TEXTS[0]), one.billed_characters

    many = client.translate_text(TEXTS, source_lang='en', target_lang='hi')
    assert isinstance(many, list) and len(many) == len(TEXTS), many
    assert many[0].text == one.text, 'a text depends on the others'
    assert [each.billed_characters for each in many] == [len(text) for text in TEXTS], 'characters, not bytes'
    for text, each in zip(TEXTS, many):
        assert len(each.text.split('\n')) == len(text.split('\n')), (text, each.text)
    again = client.translate_text(TEXTS, source_lang='EN', target_lang='HI')
    assert [each.text for each in again] == [each.text for each in many], 'equal requests, unequal answers'
    detected = client.translate_text('How are you? This is an English sentence.', target_lang='HI')
    assert detected.detected_source_lang == 'EN', detected.detected_source_lang

    # What asks for nothing that is missing is accepted.
    same = client.translate_text(TEXTS[0], source_lang='EN', target_lang='HI', formality='prefer_more',
                                 preserve_formatting=True, model_type='prefer_quality_optimized')
    assert same.text == one.text
    for split in deepl.SplitSentences.OFF, deepl.SplitSentences.ALL:
        each = client.translate_text(TEXTS[0], source_lang='EN', target_lang='HI', split_sentences=split)
        assert each.text == one.text, 'one sentence, split or not'

    named = {'source_lang': 'EN', 'target_lang': 'HI'}
    refused(client.translate_text, 'how are you', **named, formality='more', word='formality')
    refused(client.translate_text, 'how are you', **named, formality='less', word='formality')
    refused(client.translate_text, '<b>how</b>', **named, tag_handling='html', word='tag_handling')
    refused(client.translate_text, '<b>how</b>', **named, tag_handling='xml', word='tag_handling')
    refused(client.translate_text, 'how are you', **named, glossary='abc', word='glossary_id')
    refused(client.translate_text, 'how are you', **named, context='a greeting', word='context')
    refused(client.translate_text, 'how are you', **named, extra_body_parameters={'formalty': 'less'}, word='formalty')
    refused(client.translate_text, 'how are you', **named, split_sentences='nonewlines', word='split_sentences')
    refused(client.translate_text, 'how are you', source_lang='EN', target_lang='XX', word='XX')
    refused(client.translate_text, 'how are you', source_lang='XX', target_lang='HI', word='XX')

    sources = client.get_source_languages()
    targets = client.get_target_languages()
    for each in sources + targets:
        assert isinstance(each, deepl.Language) and isinstance(each.name, str) and each.name, each
        assert each.code == each.code.upper() or '-' in each.code, each.code
    assert [each.name for each in sources if each.code == 'EN'] == ['English'], sources
    assert [each.name for each in targets if each.code == 'HI'] == ['Hindi'], targets
    assert 'HI' not in [each.code for each in sources], 'the body of a GET is not read'
    assert all(each.supports_formality is False for each in targets), 'formality is not supported'
    assert all(each.supports_formality is None for each in sources)

    for each in targets:
        text = client.translate_text(TEXTS[0], target_lang=each.code).text
        assert text, f'{each.code} is listed, and not taken'

    usage = client.get_usage()
    assert isinstance(usage, deepl.Usage) and usage.character.valid, usage
    assert isinstance(usage.character.count, int) and usage.character.count >= sum(map(len, TEXTS)), usage
    assert not usage.any_limit_reached, usage
    client.translate_text('how', **named)
    assert client.get_usage().character.count >= usage.character.count + 3, 'characters are not counted'

    if key:
        wrong = deepl.DeepLClient('wrong', server_url=url)
        for call, arguments in ((wrong.translate_text, {'text': 'how are you', **named}), (wrong.get_usage, {}),
                                (wrong.get_source_languages, {})):
            try:
                call(**arguments)
            except deepl.AuthorizationException as error:
                assert error.http_status_code == 403, error
            else:
                raise AssertionError('a wrong key was accepted')


main(*sys.argv[1:])
print('deepl: passed')
