"""The `langgraph` package, unchanged, over langchain-openai: a graph of its own and its agent that calls."""
CLIENT = 'langgraph'
PROGRAM = '''
import os
from typing import Annotated, TypedDict
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return 'sunny in ' + city

class State(TypedDict):
    messages: Annotated[list, add_messages]

def model(**more):
    return ChatOpenAI(model=os.environ['MODEL'], base_url=os.environ['BASE_URL'], api_key='none',
                      temperature=0, max_retries=0, **{'max_tokens': 60, **more})

def graph():
    calling = model().bind_tools([get_weather], tool_choice='get_weather', parallel_tool_calls=False)
    def call(state):
        return {'messages': [calling.invoke(state['messages'])]}
    def answer(state):
        return {'messages': [model(max_tokens=12).bind_tools([get_weather]).invoke(state['messages'])]}
    made = StateGraph(State)
    made.add_node('call', call)
    made.add_node('tools', ToolNode([get_weather]))
    made.add_node('answer', answer)
    made.add_edge(START, 'call')
    made.add_edge('call', 'tools')
    made.add_edge('tools', 'answer')
    made.add_edge('answer', END)
    return made.compile(checkpointer=InMemorySaver())

ASK = {'messages': [SystemMessage('Be brief.'), HumanMessage('What is the weather in Paris?')]}

def case_graph():
    compiled = graph()
    thread = {'configurable': {'thread_id': '1'}}
    state = compiled.invoke(ASK, thread)
    again = compiled.invoke({'messages': [HumanMessage('And in Rome?')]}, thread)
    return {'kinds': [m.type for m in state['messages']],
            'results': [m.content for m in state['messages'] if isinstance(m, ToolMessage)],
            'length': len(again['messages'])}

def case_streamed():
    pieces = [chunk for chunk, about in graph().stream(ASK, {'configurable': {'thread_id': '2'}},
                                                       stream_mode='messages')
              if about['langgraph_node'] == 'answer']
    return {'pieces': len(pieces), 'text': ''.join(p.content for p in pieces)}
'''


def test_a_graph_with_a_tool(told):
    assert told['graph']['kinds'] == ['system', 'human', 'ai', 'tool', 'ai']
    assert told['graph']['results'][0].startswith('sunny in ')
    assert told['graph']['length'] == 9


def test_its_stream(told):
    assert told['streamed']['pieces'] > 1
