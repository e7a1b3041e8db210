"""What the greedy golden asks the demo model: several topics, languages, code, and one long prompt."""

LONG = """The lighthouse at the end of the northern pier was built in 1871 by a company of masons from \
three towns. \
They worked through two winters, hauling granite blocks across the ice on wooden sledges, because the road \
to the pier was not paved until 1904. The first keeper, a retired sailor named Anders Holm, kept a diary \
in which he wrote the weather, the names of passing ships, and the price of lamp oil. In the spring of \
1883 a storm broke the lantern glass; Holm repaired it with window panes taken from his own kitchen and \
kept the light burning for eleven nights. His daughter Ingrid took over in 1897. She was the first woman \
on that coast to be paid as a keeper, although the harbour office recorded her for six years under her \
father's name. Under her care the oil lamp was replaced by a petroleum vapour burner, and in 1922 by an \
electric lamp of five hundred watts. During the war the light was dark for four years, and the tower \
served as a lookout. It was automated in 1968, and the keeper's house became a small museum that is open \
from May to September. The diary lies in a glass case on the ground floor. Visitors may climb the one \
hundred and twelve steps to the gallery, from which, on a clear day, one sees the islands to the west."""

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

QUESTIONS = {
    "haiku": "Write a haiku about GPU computing",
    "capital": "What is the capital of France, and what is it known for?",
    "photosynthesis": "Explain photosynthesis to a ten year old child.",
    "python": "Write a Python function that returns the n-th Fibonacci number.",
    "cpp": "Write a C++ program that reads numbers from standard input and prints their average.",
    "arithmetic": "A train travels 60 km in 45 minutes. What is its average speed in km/h? Show the steps.",
    "french": "Écris une courte lettre à un ami pour l'inviter à dîner samedi soir.",
    "german": "Erkläre in drei Sätzen, warum der Himmel blau ist.",
    "spanish": "¿Cuáles son los planetas del sistema solar? Haz una lista.",
    "chinese": "请用三句话介绍一下北京。",
    "russian": "Расскажи коротко о реке Волге.",
    "json": 'Return a JSON object with the keys "name", "age" and "city" for an imaginary person.',
    "list": "List ten uses for a paper clip.",
    "sql": "Write an SQL query that finds the three customers with the largest total of orders.",
    "symbols": "What do the symbols ∑, √ and ≤ mean? 🙂",
    "story": "Tell me a story that begins with: It was raining on the last day of the world.",
    "lighthouse": LONG + "\n\nSummarize the text above in a few sentences.",
}


def chatml(question):
    """The prompt as the model's chat template renders it."""
    turns = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n"
    return turns + "<|im_start|>assistant\n"
