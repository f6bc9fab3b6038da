#!/usr/bin/env python3
"""A whole session with libretranslatepy, as it comes from PyPI.

    libretranslate_session.py URL [KEY]

The server at URL has a model en-hi. With KEY it wants keys, and KEY is one. Exits with 77 where the package is missing.
"""
import json
import sys
import urllib.error
import urllib.request

try:
    from libretranslatepy import LibreTranslateAPI
except ImportError as error:
    print(f'skipped: {error}', file=sys.stderr)
    sys.exit(77)

TEXTS = ['how are you', 'I am fine, thank you', 'where are they going?\nthe theory', '', '  ', '& = % + 😀']


def refused(status, call, *arguments, **named):
    """What the server says when it refuses; the client lets urllib's error through."""
    try:
        call(*arguments, **named)
    except urllib.error.HTTPError as error:
        body = json.loads(error.read().decode())
        assert error.code in status, (error.code, body)
        assert isinstance(body['error'], str) and body['error'] and '\n' not in body['error'], body
        return body['error']
    raise AssertionError(f'{call.__name__}{arguments} was not refused')


def post(url, body):
    request = urllib.request.Request(url + '/translate', json.dumps(body).encode(), {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def main(url, key=None):
    client = LibreTranslateAPI(url, key)
    first = [client.translate(text, 'en', 'hi', timeout=60) for text in TEXTS]
    assert all(isinstance(text, str) for text in first), first
    for text, translated in zip(TEXTS, first):
        assert len(translated.split('\n')) == len(text.split('\n')), (text, translated)
    assert first[0].strip(), 'a sentence became nothing'
    assert first[3] == '' and first[4].strip() == '', 'no word, no translation'
    assert [client.translate(text, 'en', 'hi') for text in TEXTS] == first, 'equal requests, unequal answers'
    assert isinstance(client.translate(TEXTS[0], 'auto', 'hi'), str)

    detected = client.detect('How are you? This is an English sentence about the weather.')
    assert isinstance(detected, list) and detected, detected
    for each in detected:
        assert isinstance(each['language'], str), each
        assert isinstance(each['confidence'], (int, float)) and 0 <= each['confidence'] <= 100, each
    assert detected == sorted(detected, key=lambda each: -each['confidence']), detected
    assert detected[0]['language'] == 'en' and detected[0]['confidence'] > 1, 'confidence is in percent'

    assert client.detect('123')[0]['confidence'] == 0, 'a language is always named'

    languages = client.languages()
    assert isinstance(languages, list)
    for each in languages:
        assert isinstance(each['code'], str) and isinstance(each['name'], str), each
        assert isinstance(each['targets'], list), each
    by_code = {each['code']: each for each in languages}
    assert 'hi' in by_code['en']['targets'], languages
    assert by_code['en']['name'] == 'English', languages

    # What the client does not offer but the API has: arrays, alternatives.
    named = {'source': 'en', 'target': 'hi', **({'api_key': key} if key else {})}
    answer = post(url, {'q': TEXTS, **named})
    assert answer == {'translatedText': first}, answer
    answer = post(url, {'q': TEXTS[0], 'alternatives': 2, 'format': 'text', **named})
    assert answer['translatedText'] == first[0], answer
    assert len(answer['alternatives']) == 2 and all(isinstance(a, str) for a in answer['alternatives']), answer
    answer = post(url, {'q': TEXTS[:2], **named, 'source': 'auto'})
    assert len(answer['translatedText']) == len(answer['detectedLanguage']) == 2, answer

    refused([400, 422], client.translate, 'how are you', 'en', 'xx')
    refused([400, 422], client.translate, 'how are you', 'xx', 'hi')
    assert '15' in refused([400], post, url, {'q': 'how', 'alternatives': 16, **named})
    assert 'alternative' in refused([400], post, url, {'q': 'how', 'alternative': 2, **named})
    assert 'html' in refused([400], post, url, {'q': '<b>how</b>', 'format': 'html', **named})
    if key:
        refused([403], LibreTranslateAPI(url, 'wrong').translate, 'how are you', 'en', 'hi')
        refused([401, 403], LibreTranslateAPI(url).translate, 'how are you', 'en', 'hi')
        assert LibreTranslateAPI(url).languages() == languages, 'languages need no key'


main(*sys.argv[1:])
print('libretranslatepy: passed')
