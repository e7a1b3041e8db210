#include "test/unit/net/turns/manners.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>

namespace orcd::net::test {
namespace {

std::string object_of(const said_arguments& arguments, std::string_view after_key = ": ",
                      std::string_view between = ", ") {
  std::string out = "{";
  for (const auto& [name, value] : arguments) {
    if (out.size() > 1) out += between;
    out += '"' + name + '"';
    out += after_key;
    out += value;
  }
  return out + "}";
}

/// A text as it is, anything else as JSON.
std::string bare(const std::string& value) {
  return value.starts_with('"') ? std::string(boost::json::parse(value).as_string()) : value;
}

std::string named(const said_call& call, std::string_view arguments) {
  return "{\"name\": \"" + call.name + "\", \"" + std::string(arguments) +
         "\": " + object_of(call.arguments) + "}";
}

std::string hermes(const said_call& call) {
  return "<tool_call>\n" + named(call, "arguments") + "\n</tool_call>";
}
std::string exaone(const said_call& call) {
  return "<tool_call>" + named(call, "arguments") + "</tool_call>";
}
std::string with_arguments(const said_call& call) {
  return named(call, "arguments");
}
std::string with_parameters(const said_call& call) {
  return named(call, "parameters");
}
std::string with_id(const said_call& call) {
  const std::string whole = named(call, "arguments");
  return whole.substr(0, whole.size() - 1) + R"(, "id": "abcdef123"})";
}
std::string fenced(const said_call& call) {
  return "```tool_code\n" + named(call, "parameters") + "\n```";
}
std::string plugin(const said_call& call) {
  return "<|action_start|><|plugin|>\n" + named(call, "parameters") + "\n<|action_end|>";
}
std::string plugin_arguments(const said_call& call) {
  return "<|action_start|><|plugin|>\n" + named(call, "arguments") + "<|action_end|>";
}
std::string mistral_args(const said_call& call) {
  return "[TOOL_CALLS]" + call.name + "[ARGS]" + object_of(call.arguments);
}
std::string mistral_id(const said_call& call) {
  return "[TOOL_CALLS]" + call.name + "[CALL_ID]abcdef123[ARGS]" + object_of(call.arguments);
}
// In one of the two orders in which the model writes it: that of its template.
std::string harmony(const said_call& call) {
  return " to=functions." + call.name + "<|channel|>commentary json<|message|>" +
         object_of(call.arguments, ":", ",");
}
std::string cohere(const said_call& call) {
  return R"(    {"tool_call_id": "#", "tool_name": ")" + call.name +
         "\", \"parameters\": " + object_of(call.arguments) + "}";
}
std::string command(const said_call& call) {
  const std::string indent(12, ' ');
  std::string arguments = object_of(call.arguments, ": ", ",\n" + indent);
  if (arguments != "{}") {
    arguments = "{\n" + indent + arguments.substr(1, arguments.size() - 2) + "\n" + std::string(8, ' ') + "}";
  }
  return "    {\n        \"tool_name\": \"" + call.name + "\",\n        \"parameters\": " + arguments +
         "\n    }";
}
std::string pretty(const said_call& call) {
  const std::string indent(12, ' ');
  std::string arguments = object_of(call.arguments, ": ", ",\n" + indent);
  if (arguments != "{}") {
    arguments = "{\n" + indent + arguments.substr(1, arguments.size() - 2) + "\n" + std::string(8, ' ') + "}";
  }
  return "    {\n        \"name\": \"" + call.name + "\",\n        \"arguments\": " + arguments + "\n    }";
}
std::string glm4(const said_call& call) {
  return call.name + "\n" + object_of(call.arguments);
}
std::string pairs(const said_call& call) {
  std::string out = "<tool_call>" + call.name + "\n";
  for (const auto& [name, value] : call.arguments) {
    out += "<arg_key>" + name + "</arg_key>\n<arg_value>" + bare(value) + "</arg_value>\n";
  }
  return out + "</tool_call>";
}
std::string close_pairs(const said_call& call) {
  std::string out = "<tool_call>" + call.name;
  for (const auto& [name, value] : call.arguments) {
    out += "<arg_key>" + name + "</arg_key><arg_value>" + bare(value) + "</arg_value>";
  }
  return out + "</tool_call>";
}
std::string coder(const said_call& call) {
  std::string out = "<tool_call>\n<function=" + call.name + ">\n";
  for (const auto& [name, value] : call.arguments) {
    out += "<parameter=" + name + ">\n" + bare(value) + "\n</parameter>\n";
  }
  return out + "</function>\n</tool_call>";
}
std::string seed(const said_call& call) {
  std::string out = "<seed:tool_call>\n<function=" + call.name + ">\n";
  for (const auto& [name, value] : call.arguments) {
    out += "<parameter=" + name + ">" + bare(value) + "</parameter>\n";
  }
  return out + "</function>\n</seed:tool_call>";
}
std::string olmo(const said_call& call) {
  std::string out = call.name + "(";
  for (const auto& [name, value] : call.arguments)
    out += (out.ends_with('(') ? "" : ", ") + name + "=" + value;
  return out + ")";
}

/// Texts between single quotes, as the template has it; lists and objects stay JSON.
std::string lfm2(const said_call& call) {
  std::string out = call.name + "(";
  for (const auto& [name, value] : call.arguments) {
    out += (out.ends_with('(') ? "" : ", ") + name + "=";
    out += value.starts_with('"') ? "'" + bare(value) + "'" : value;
  }
  return out + ")";
}

/// JSON with bare names, and with marks around texts in the place of quotes and escapes.
std::string marked(std::string_view json) {
  std::string out;
  for (std::size_t at = 0; at < json.size(); ++at) {
    if (json[at] != '"') {
      if (json[at] != ' ') out += json[at];
      continue;
    }
    const std::size_t begin = at++;
    while (json[at] != '"') at += json[at] == '\\' ? 2 : 1;
    const std::string text = bare(std::string(json.substr(begin, at + 1 - begin)));
    const bool name = at + 1 < json.size() && json[at + 1] == ':';
    out += name ? text : "<|\"|>" + text + "<|\"|>";
  }
  return out;
}
// Names in their order, as templates have it.
std::string gemma4(const said_call& call) {
  said_arguments sorted = call.arguments;
  std::sort(sorted.begin(), sorted.end());
  return "<|tool_call>call:" + call.name + marked(object_of(sorted)) + "<tool_call|>";
}

constexpr std::string_view open = "<think>\n", close = "\n</think>\n\n";

const std::vector<manner> all{
    {.name = "ByteDance-Seed-OSS",
     .think = "<seed:think>",
     .thought = "</seed:think>\n",
     .gap = "\n\n",
     .call = seed,
     .limits = {.prints_nested = true}},
    {.name = "GLM-4.5",
     .think = "\n<think>",
     .thought = "</think>\n",
     .call = pairs,
     .limits = {.reasoning = remembers::of_this_turn, .rewrites = true}},
    {.name = "GLM-4.6",
     .think = "\n<think>",
     .thought = "</think>\n",
     .call = pairs,
     .limits = {.reasoning = remembers::of_this_turn, .rewrites = true}},
    {.name = "GLM-4.7-Flash",
     .think = "",
     .thought = "</think>",
     .gap = "",
     .between = "",
     .call = close_pairs,
     .limits = {.reasoning = remembers::of_this_turn}},
    {.name = "HuggingFaceTB-SmolLM3-3B",
     .think = open,
     .thought = "\n</think>\n",
     .limits = {.reasoning = remembers::none}},
    {.name = "LFM2-8B-A1B",
     .calls = "<|tool_call_start|>[",
     .between = ", ",
     .called = "]<|tool_call_end|>",
     .call = olmo},
    {.name = "LFM2.5-8B-A1B",
     .think = "<think>",
     .thought = "</think>",
     .gap = "",
     .calls = "<|tool_call_start|>[",
     .between = ", ",
     .called = "]<|tool_call_end|>",
     .call = lfm2,
     .limits = {.reasoning = remembers::of_this_turn}},
    {.name = "Mistral-Small-3.2-24B-Instruct-2506",
     .gap = "",
     .between = "",
     .call = mistral_id,
     .limits = {.no_preamble = true, .own_ids = true, .rewrites = true}},
    {.name = "Phi-3"},
    {.name = "Qwen-QwQ-32B",
     .thought = close,
     .call = hermes,
     .limits = {.reasoning = remembers::none, .rewrites = true}},
    {.name = "Qwen-Qwen2.5-7B-Instruct", .call = hermes},
    {.name = "Qwen-Qwen3-0.6B",
     .think = open,
     .thought = close,
     .call = hermes,
     .limits = {.reasoning = remembers::of_this_turn, .rewrites = true}},
    {.name = "Qwen3-Coder", .gap = "\n\n", .call = coder},
    {.name = "Qwen3-Instruct-2507", .call = hermes},
    {.name = "Qwen3.5-4B",
     .thought = close,
     .gap = "\n\n",
     .call = coder,
     .limits = {.reasoning = remembers::of_this_turn, .rewrites = true}},
    {.name = "SmolLM2"},
    {.name = "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
     .thought = close,
     .limits = {.reasoning = remembers::none, .rewrites = true}},
    {.name = "deepseek-ai-DeepSeek-V3.1", .thought = "</think>", .limits = {.reasoning = remembers::none}},
    {.name = "google-gemma-2-2b-it"},
    {.name = "google-gemma-3"},
    {.name = "google-gemma-4-31B-it",
     .think = "<|channel>thought\n",
     .thought = "\n<channel|>",
     .gap = "",
     .between = "",
     .call = gemma4,
     .limits = {.reasoning = remembers::of_this_turn,
                .no_preamble = true,
                .prints_nested = true,
                .rewrites = true}},
    {.name = "google-gemma-4-31B-it-interleaved",
     .think = "<|channel>thought\n",
     .thought = "<channel|>",
     .gap = "",
     .between = "",
     .call = gemma4,
     .limits = {.reasoning = remembers::of_this_turn,
                .no_preamble = true,
                .prints_nested = true,
                .rewrites = true}},
    {.name = "ibm-granite-granite-3.3-2B-Instruct",
     .think = "<think>",
     .thought = "</think>",
     .calls = "<|tool_call|>[",
     .between = ", ",
     .called = "]",
     .call = with_arguments,
     .limits = {.reasoning = remembers::none}},
    {.name = "ibm-granite-granite-4.0", .call = hermes},
    {.name = "ibm-granite-granite-4.1", .call = hermes},
    {.name = "meta-llama-Llama-3.1-8B-Instruct",
     .gap = "<|python_tag|>",
     .between = "; ",
     .call = with_parameters,
     .limits = {.no_preamble = true, .one_call = true}},
    {.name = "meta-llama-Llama-3.2-3B-Instruct",
     .gap = "<|python_tag|>",
     .between = "; ",
     .call = with_parameters,
     .limits = {.no_preamble = true, .one_call = true}},
    {.name = "microsoft-Phi-3.5-mini-instruct"},
    {.name = "mistralai-Ministral-3-14B-Reasoning-2512",
     .think = "[THINK]",
     .thought = "[/THINK]",
     .gap = "",
     .between = "",
     .call = mistral_args},
    {.name = "mistralai-Mistral-Nemo-Instruct-2407",
     .gap = "",
     .calls = "[TOOL_CALLS][",
     .between = ", ",
     .called = "]",
     .call = with_id,
     .limits = {.no_preamble = true, .own_ids = true, .rewrites = true}},
    {.name = "openai-gpt-oss-120b",
     .think = "<|channel|>analysis<|message|>",
     .thought = "<|end|><|start|>assistant",
     .answer = "<|channel|>final<|message|>",
     .gap = "<|end|><|start|>assistant",
     .between = "<|call|><|start|>assistant",
     .call = harmony,
     .preamble = "<|channel|>commentary<|message|>",
     .limits = {.reasoning = remembers::before_calls, .no_preamble = true, .one_call = true}},
    {.name = "own-cohere2",
     .think = "<|START_THINKING|>",
     .thought = "<|END_THINKING|>",
     .answer = "<|START_RESPONSE|>",
     .answered = "<|END_RESPONSE|>",
     .gap = "",
     .calls = "<|START_ACTION|>[\n",
     .between = ",\n",
     .called = "\n]<|END_ACTION|>",
     .call = cohere,
     .limits = {.reasoning = remembers::before_calls, .no_preamble = true}},
    {.name = "own-command-r",
     .gap = "\n",
     .calls = "Action:\n```json\n[\n",
     .between = ",\n",
     .called = "\n]```",
     .call = command,
     .first_gap = "\n",
     .limits = {.prints_nested = true, .rewrites = true}},
    {.name = "own-ernie4.5",
     .thought = "\n</think>\n",
     .unthought = "\n</think>\n",
     .answer = "<response>\n",
     .answered = "\n</response>\n",
     .gap = "\n",
     .between = "\n\n",
     .call = hermes,
     .first_gap = "\n",
     .limits = {.reasoning = remembers::of_two, .rewrites = true}},
    {.name = "own-exaone4",
     .think = open,
     .thought = close,
     .call = exaone,
     .limits = {.reasoning = remembers::of_this_turn}},
    {.name = "own-gemma3-tools", .call = fenced, .first_gap = "\n"},
    {.name = "zai-org-GLM-4-9B-0414",
     .answer = "\n",
     .gap = "<|assistant|>",
     .between = "<|assistant|>",
     .call = glm4,
     .limits = {.rewrites = true}},
    {.name = "allenai-OLMoE-1B-7B-0125-Instruct"},
    {.name = "internlm-Intern-S1-mini",
     .thought = "\n</think>\n",
     .unthought = "\n</think>\n",
     .gap = "",
     .call = plugin,
     .limits = {.reasoning = remembers::of_this_turn, .rewrites = true}},
    {.name = "allenai-Olmo-3-7B-Instruct",
     .thought = "</think>",
     .unthought = "</think>",
     .gap = "",
     .calls = "<function_calls>",
     .called = "</function_calls>",
     .call = olmo,
     .limits = {.rewrites = true}},
    {.name = "allenai-Olmo-Hybrid-Think-SFT-7B",
     .thought = "</think>",
     .unthought = "</think>",
     .gap = "",
     .calls = "<function_calls>",
     .called = "</function_calls>",
     .call = olmo,
     .limits = {.reasoning = remembers::none, .rewrites = true}},
    {.name = "HuggingFaceTB-SmolLM3-3B-tools",
     .think = open,
     .thought = "\n</think>\n",
     .call = hermes,
     .limits = {.reasoning = remembers::none}},
    {.name = "vllm-granite",
     .gap = "",
     .calls = "<|tool_call|>[\n",
     .between = ",\n",
     .called = "\n]",
     .call = pretty,
     .limits = {.no_preamble = true, .prints_nested = true}},
    {.name = "vllm-internlm2", .gap = "", .between = "", .call = plugin_arguments},
    {.name = "vllm-mistral3",
     .gap = "",
     .calls = "[TOOL_CALLS] [",
     .between = ", ",
     .called = "]",
     .call = with_id,
     .limits = {.no_preamble = true, .own_ids = true, .rewrites = true}},
};

}  // namespace

const std::vector<manner>& manners() {
  return all;
}

std::string written(const manner& how, const turn& said, bool cut) {
  std::string out;
  if (!said.reasoning.empty()) {
    out += how.think;
    out += said.reasoning;
    if (cut) return out;
    out += how.thought;
  }
  if (!said.text.empty()) {
    out += said.calls.empty() || how.preamble.empty() ? how.answer : how.preamble;
    out += said.text + std::string(how.answered);
  }
  if (said.calls.empty()) return out;
  out += said.text.empty() ? how.first_gap : how.gap;
  out += how.calls;
  for (std::size_t i = 0; i < said.calls.size(); ++i) {
    if (i > 0) out += how.between;
    const std::string call = how.call(said.calls[i]);
    const auto number = call.find('#');
    out += number == std::string::npos ? call
                                       : call.substr(0, number) + std::to_string(i) + call.substr(number + 1);
  }
  if (cut) return out.substr(0, out.find("Oslo") + 2);
  return out + std::string(how.called);
}

}  // namespace orcd::net::test
