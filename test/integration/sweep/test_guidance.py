"""The `guidance` package, unchanged, with its VLLMModel, which sends grammars in Lark's form."""
import re

CLIENT = 'guidance'
PROGRAM = '''
import os
import openai
from guidance import assistant, gen, json, one_or_more, regex, select, system, user
from guidance.models.experimental import VLLMModel

def chat():
    model = VLLMModel(os.environ['MODEL'], base_url=os.environ['BASE_URL'], api_key='none', echo=False)
    with system():
        model += 'Be brief.'
    with user():
        model += 'What is the weather in Paris?'
    return model

def case_regex():
    model = chat()
    with assistant():
        model += regex('[ab]{3}[0-9]', name='it')
    return model['it']

def case_select():
    model = chat()
    with assistant():
        model += 'It is ' + select(['sunny', 'rainy'], name='it') + ' today, '
        model += one_or_more(select(['x', 'yz'])) + '!'
    return [model['it'], str(model)]

def case_free():
    model = chat()
    with assistant():
        model += gen(name='it', regex='[a-z ]{1,20}')
    return model['it']

def case_limited():
    model = chat()
    try:
        with assistant():
            model += gen(name='it', max_tokens=6)
    except openai.BadRequestError as e:
        return str(e)

def case_json():
    model = chat()
    schema = {'type': 'object',
              'properties': {'on': {'type': 'boolean'}, 'n': {'type': 'integer', 'maximum': 9}},
              'required': ['on', 'n'], 'additionalProperties': False}
    with assistant():
        model += json(schema=schema)
    return str(model)
'''


def test_a_pattern(told):
    assert re.fullmatch('[ab]{3}[0-9]', told['regex'])


def test_a_choice_in_a_grammar(told):
    chosen, text = told['select']
    assert chosen in ('sunny', 'rainy') and re.search(f'It is {chosen} today, (x|yz)+!', text)


def test_free_text(told):
    assert re.fullmatch('[a-z ]{1,20}', told['free'])


def test_a_limit_of_tokens_in_a_rule_is_refused_by_name(told):
    assert '"max_tokens" is not served' in told['limited']


def test_a_schema(told):
    assert re.search(r'\{\s*"on"\s*:\s*(true|false)\s*,\s*"n"\s*:\s*-?[0-9]+\s*\}', told['json'])
