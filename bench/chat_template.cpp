// Rendering the prompt of a chat of 20 messages: the limit is 200 us with the largest template, and what
// compiling costs once per model. The conversation is `long` of test/data/chat/scenarios.json, with three
// tools.
#include "engine/jinja/chat_template.hpp"

#include <benchmark/benchmark.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>
#include <string>

namespace {

std::string read_data(const std::string& name) {
  std::ifstream in(std::string(ORCD_CHAT_DATA "/") + name, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

boost::json::object long_chat() {
  const auto scenarios = boost::json::parse(read_data("scenarios.json"));
  boost::json::object chat = scenarios.at("long").as_object();
  chat["tools"] = scenarios.at("tools").at("tools");
  return chat;
}

void render(benchmark::State& state, const char* name) {
  const auto compiled =
      orcd::engine::chat_template::compile(read_data(std::string("templates/") + name + ".jinja"));
  if (!compiled) return state.SkipWithError(compiled.error().message.c_str());
  const auto chat = long_chat();
  std::size_t bytes = 0;
  for (auto _ : state) {
    auto prompt = compiled->render(chat);
    if (!prompt) return state.SkipWithError(prompt.error().message.c_str());
    bytes = prompt->size();
    benchmark::DoNotOptimize(prompt);
  }
  state.counters["messages"] = static_cast<double>(chat.at("messages").as_array().size());
  state.counters["prompt_bytes"] = static_cast<double>(bytes);
}

void compile(benchmark::State& state, const char* name) {
  const std::string text = read_data(std::string("templates/") + name + ".jinja");
  for (auto _ : state) {
    auto compiled = orcd::engine::chat_template::compile(text);
    if (!compiled) return state.SkipWithError(compiled.error().message.c_str());
    benchmark::DoNotOptimize(compiled);
  }
  state.counters["template_bytes"] = static_cast<double>(text.size());
}

BENCHMARK_CAPTURE(render, gpt_oss, "openai-gpt-oss-120b")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(render, qwen3, "Qwen-Qwen3-0.6B")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(render, llama_3_1, "meta-llama-Llama-3.1-8B-Instruct")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(compile, gpt_oss, "openai-gpt-oss-120b")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(compile, qwen3, "Qwen-Qwen3-0.6B")->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
