"""The `crewai` package, unchanged: its LLM, a stream of it, and a crew of one agent."""
CLIENT = 'crewai'
PROGRAM = '''
import os
os.environ['CREWAI_DISABLE_TELEMETRY'] = os.environ['CREWAI_DISABLE_TRACKING'] = 'true'
os.environ['CREWAI_TRACING_ENABLED'] = 'false'
from crewai import LLM, Agent, Crew, Process, Task
from pydantic import BaseModel, Field

class City(BaseModel):
    """A city."""
    name: str = Field(max_length=12)
    population: int = Field(ge=0, le=99)

def model(**more):
    return LLM(model='openai/' + os.environ['MODEL'], base_url=os.environ['BASE_URL'], api_key='none',
               temperature=0, **{'max_tokens': 24, **more})

ASK = [{'role': 'system', 'content': 'Be brief.'},
       {'role': 'user', 'content': 'What is the weather in Paris?'}]

def case_whole():
    return model().call(ASK)

def case_streamed():
    return model(stream=True).call(ASK)

def case_structured():
    answer = model(max_tokens=80).call(ASK, response_model=City)
    return (answer if isinstance(answer, City) else City.model_validate_json(answer)).model_dump()

def case_crew():
    agent = Agent(role='Poet', goal='Write', backstory='Brief.', llm=model(max_tokens=40), max_iter=1,
                  verbose=False)
    task = Task(description='A word about rain.', expected_output='A word.', agent=agent)
    answer = Crew(agents=[agent], tasks=[task], process=Process.sequential, verbose=False).kickoff()
    return {'text': answer.raw, 'requests': answer.token_usage.successful_requests}
'''


def test_its_llm_and_its_stream(told):
    assert told['whole'] and told['streamed'] == told['whole']


def test_a_structured_answer(told):
    assert set(told['structured']) == {'name', 'population'}


def test_a_crew(told):
    assert told['crew']['text'] and told['crew']['requests'] >= 1
