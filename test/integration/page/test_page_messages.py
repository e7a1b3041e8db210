"""What is done with messages by hand: other versions, copies, deleting, stopping and going on, and a look at
their tokens."""
import re

from browser import answer_with, cut, said, stream_of


def last(tab):
    return tab.page.locator('.turn').last


def press(tab, turn, name: str) -> None:
    turn.hover()
    turn.get_by_role('button', name=name, exact=True).click()


def test_an_edited_question_is_another_version(tab):
    answer_with(tab, said('Red.'), said('Blue.'), said('Green.'))
    tab.say('Which colour?')
    tab.wait_turns('Which colour?', 'Red.')
    tab.wait_done()
    press(tab, tab.page.locator('.turn.user'), 'Edit')
    field = tab.page.get_by_label('Your text')
    assert field.input_value() == 'Which colour?'
    field.fill('Which colour has the sky?')
    tab.page.keyboard.press('Control+Enter')
    tab.wait_turns('Which colour has the sky?', 'Blue.')
    tab.wait_done()
    assert tab.bodies[-1]['messages'] == [{'role': 'user', 'content': 'Which colour has the sky?'}]
    question = tab.page.locator('.turn.user')
    assert question.locator('.version').text_content() == '2 / 2'
    press(tab, question, 'Version before')
    tab.wait_turns('Which colour?', 'Red.')
    press(tab, last(tab), 'Write another answer')
    tab.wait_turns('Which colour?', 'Green.')
    tab.wait_done()
    tab.reload()
    tab.wait_turns('Which colour?', 'Green.')
    press(tab, last(tab), 'Version before')
    tab.wait_turns('Which colour?', 'Red.')
    press(tab, tab.page.locator('.turn.user'), 'Next version')
    tab.wait_turns('Which colour has the sky?', 'Blue.')
    # An answer may be put into other words, too, and what is asked next goes on from these.
    press(tab, last(tab), 'Edit')
    tab.page.get_by_label('Your text').fill('Azure.')
    tab.button('Save as another version').click()
    tab.wait_turns('Which colour has the sky?', 'Azure.')
    answer_with(tab, said('Yes.'))
    tab.say('Sure?')
    tab.wait_turns('Which colour has the sky?', 'Azure.', 'Sure?', 'Yes.')
    sent = [m['content'] for m in tab.bodies[-1]['messages']]
    assert sent == ['Which colour has the sky?', 'Azure.', 'Sure?']
    press(tab, tab.page.locator('.turn.user').last, 'Edit')
    tab.page.keyboard.press('Escape')
    tab.wait_turns('Which colour has the sky?', 'Azure.', 'Sure?', 'Yes.')


def test_versions_say_what_was_cached(tab):
    """By the worker's own figures: the second answer to a question of two pages finds them in the cache."""
    tab.go_on()
    tab.set('Tokens of an answer', '3')
    tab.say('word ' * 300)
    tab.page.locator('.facts', has_text='3 out').wait_for()
    tab.wait_done()
    press(tab, last(tab), 'Write another answer')
    tab.page.get_by_text('2 / 2').wait_for()
    tab.page.locator('.facts', has_text='3 out').wait_for()
    tab.wait_done()
    shown = last(tab).locator('.version').text_content()
    cached = int(re.fullmatch(r'2 / 2 · ([\d,]+) cached', shown)[1].replace(',', ''))
    assert cached >= 256 and f'({cached:,} cached)' in last(tab).locator('.facts').text_content()
    assert tab.bodies[0]['seed'] != tab.bodies[1]['seed'], 'else it were the same answer'


def test_copies_are_raw_or_as_shown(chromium, worker, tab):
    tab.page.context.grant_permissions(['clipboard-read', 'clipboard-write'])
    text = 'Some **loud** words.\n\n```\na < b\n```'
    answer_with(tab, said(text))
    tab.say('Go')
    last(tab).locator('strong').wait_for()
    tab.wait_done()
    press(tab, last(tab), 'Copy text')
    last(tab).get_by_role('button', name='Copied').wait_for()
    assert tab.page.evaluate('navigator.clipboard.readText()') == text
    press(tab, last(tab), 'Copy as shown')
    tab.wait(lambda: tab.page.evaluate('navigator.clipboard.readText()') != text, 'it was copied')
    html = tab.page.evaluate("""async () => {
        const [item] = await navigator.clipboard.read();
        return (await item.getType('text/html')).text();
    }""")
    assert '<strong>loud</strong>' in html and 'a &lt; b' in html and 'button' not in html
    press(tab, last(tab), 'Text as the model wrote it')
    assert last(tab).locator('.raw').text_content() == text
    press(tab, last(tab), 'Text as the model wrote it')
    last(tab).locator('strong').wait_for()
    tab.page.keyboard.press('Control+Shift+C')
    tab.notice('The last answer was copied')


def test_deleting_takes_what_follows_and_can_be_undone(tab):
    answer_with(tab, said('One.'), said('Two.'))
    tab.say('First')
    tab.wait_turns('First', 'One.')
    tab.wait_done()
    tab.say('Second')
    tab.wait_turns('First', 'One.', 'Second', 'Two.')
    tab.wait_done()
    press(tab, tab.page.locator('.turn.user').last, 'Delete this and what follows')
    tab.wait_turns('First', 'One.')
    tab.notice('2 messages were deleted').get_by_role('button', name='Undo').click()
    tab.wait_turns('First', 'One.', 'Second', 'Two.')
    press(tab, last(tab), 'Delete this and what follows')
    tab.wait_turns('First', 'One.', 'Second')
    tab.reload()
    tab.wait_turns('First', 'One.', 'Second')


def test_a_broken_answer_is_marked_and_can_be_continued(tab):
    answer_with(tab, cut('The beginning'), said(' and the end.'))
    tab.say('Tell me')
    tab.wait(lambda: 'ended before the answer was complete' in tab.problem(), 'it says that it broke')
    tab.wait_done()
    note = last(tab).locator('.broken')
    assert 'This answer is not complete' in note.text_content()
    tab.reload()
    tab.wait_turns('Tell me', 'The beginning')
    answer_with(tab, said(' and the end.'))
    note.get_by_role('button', name='Continue').click()
    tab.wait_turns('Tell me', 'The beginning and the end.')
    tab.wait_done()
    assert tab.bodies[-1]['continue_final_message'] is True
    assert tab.bodies[-1]['messages'][-1] == {'role': 'assistant', 'content': 'The beginning'}
    assert note.count() == 0 and tab.page.locator('.turn').count() == 2


def test_a_stopped_answer_goes_on_as_the_worker_would(tab, worker):
    """What was stopped and continued has the words that the whole answer has."""
    tab.go_on()
    tab.set('Temperature', '0')
    tab.set('Tokens of an answer', '400')
    tab.say('Once upon a time')
    tab.wait(tab.said, 'text appears')
    tab.page.keyboard.press('Escape')
    tab.wait_done()
    begun = tab.said()
    assert last(tab).locator('.facts').text_content().startswith('stopped')
    press(tab, last(tab), 'Continue this answer')
    tab.wait(lambda: tab.said() != begun, 'it goes on')
    tab.wait_done()
    told = ('messages', 'temperature', 'max_tokens', 'continue_final_message', 'seed')
    sent = {name: tab.bodies[-1][name] for name in told}
    more = worker.call('POST', '/v1/chat/completions', {**sent, 'ignore_eos': True}).json()
    assert tab.said() == begun + more['choices'][0]['message']['content']


def test_a_reload_in_the_middle_of_an_answer(tab, worker):
    tab.go_on()
    tab.set('Tokens of an answer', '6000')
    tab.say('Once upon a time')
    tab.wait(lambda: len(tab.said()) > 20, 'text appears')
    kept = "store.database.all('messages').then(all => all.some(m => m.content.length > 20))"
    tab.wait(lambda: tab.page.evaluate(kept), 'it is kept')
    tab.reload()
    tab.go_on()
    last(tab).locator('.broken', has_text='closed or loaded again').wait_for()
    begun = tab.said()
    assert len(begun) > 20
    tab.set('Tokens of an answer', '3')
    last(tab).get_by_role('button', name='Continue', exact=True).click()
    tab.wait(lambda: tab.said().startswith(begun) and len(tab.said()) > len(begun), 'it goes on')
    tab.wait_done()


def test_tokens_are_looked_at_by_pointer_and_keyboard(tab):
    tab.go_on()
    tab.set('Tokens of an answer', '12')
    tab.say('Once upon a time')
    tab.page.locator('.facts', has_text='12 out').wait_for()
    tab.wait_done()
    whole = tab.said()
    tab.reload()
    last(tab).locator('.facts').wait_for()
    press(tab, last(tab), 'Tokens and their probabilities')
    tokens = last(tab).locator('.token')
    tab.wait(lambda: tokens.count() == 12, 'each token is there')
    assert ''.join(tokens.all_text_contents()).strip() in whole or '\ufffd' in whole
    tokens.nth(3).hover()
    bubble = last(tab).locator('.token-bubble')
    assert bubble.locator('tr').count() == 5 and '%' in bubble.locator('caption').text_content()
    tab.page.mouse.move(0, 0)
    tab.wait(lambda: not bubble.is_visible(), 'it goes with the pointer')
    last(tab).locator('.tokens').focus()
    tab.page.keyboard.press('End')
    assert 'at' in tokens.nth(11).get_attribute('class').split()
    assert 'instead' in last(tab).locator('.tokens [aria-live]').text_content()
    tab.set('Tokens of an answer', '2')
    tab.open_panel()
    tab.page.get_by_label('Ask for the probabilities').uncheck()
    tab.page.evaluate('closeCover()')
    tab.say('Again')
    tab.wait(lambda: tab.page.locator('.turn').count() == 4 and not tab.is_running(), 'an answer')
    assert 'logprobs' not in tab.bodies[-1]
    press(tab, last(tab), 'Tokens and their probabilities')
    last(tab).get_by_text('were not asked for').wait_for()


def test_what_is_attached_is_sent_as_text(tab):
    answer_with(tab, said('Read.'))
    files = [{'name': 'a.py', 'mimeType': 'text/x-python', 'buffer': b'x = "```"\n'},
             {'name': 'b.png', 'mimeType': 'image/png', 'buffer': b'\x89PNG'},
             {'name': 'c.bin', 'mimeType': '', 'buffer': b'\xff\x00'},
             {'name': 'd.txt', 'mimeType': 'text/plain', 'buffer': b'left out'}]
    tab.page.locator('#attach-file').set_input_files(files)
    tab.notice('This model takes no pictures: b.png')
    tab.notice('c.bin is no text')
    tab.button('Leave out d.txt').click()
    tab.say('What is this?')
    tab.wait(lambda: tab.said() == 'Read.', 'an answer')
    assert tab.bodies[-1]['messages'][0]['content'] == 'a.py:\n````\nx = "```"\n````\n\nWhat is this?'
    assert tab.page.locator('.chip').count() == 0


def test_a_question_without_an_answer_takes_no_turn(tab):
    answer_with(tab, stream_of({'reasoning_content': 'Hm.'}), said('Two.'))
    tab.say('First')
    tab.page.locator('.reasoning').wait_for()
    tab.wait_done()
    tab.say('Second')
    tab.wait(lambda: tab.said() == 'Two.', 'an answer')
    assert tab.bodies[-1]['messages'] == [{'role': 'user', 'content': 'Second'}]
    assert 'not part of the conversation' in tab.page.locator('.turn.user .facts').first.text_content()
