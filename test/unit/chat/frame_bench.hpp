// A frame with a vocabulary: texts that its grammars allow, and what the parser reads in them.
#pragma once

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/chat/argument_types.hpp"
#include "engine/chat/output_grammar.hpp"
#include "engine/chat/output_parser.hpp"
#include "engine/grammar/matcher.hpp"
#include "test/unit/grammar/piece_tokenizer.hpp"

namespace orcd::test {

using engine::call_format;

struct output {
  std::string content, reasoning;
  std::vector<std::pair<std::string, std::string>> calls;
};

/// What is known of the functions' arguments.
inline std::shared_ptr<const engine::argument_types> types_of(std::span<const engine::callable> tools) {
  boost::json::array list;
  for (const auto& tool : tools) {
    boost::json::object function{{"name", tool.name}};
    if (tool.parameters != nullptr) function["parameters"] = *tool.parameters;
    list.push_back(boost::json::object{{"type", "function"}, {"function", std::move(function)}});
  }
  return engine::argument_types::of(list);
}

inline output read(const engine::output_frame& frame, const std::string& text,
                   std::span<const engine::callable> tools = {}) {
  engine::output_parser parser(frame.format, {true, frame.in_reasoning, types_of(tools)});
  output out;
  const auto add = [&](const engine::output_deltas& deltas) {
    for (const auto& d : deltas) {
      if (d.what == engine::output_delta::kind::content) out.content += d.text;
      if (d.what == engine::output_delta::kind::reasoning) out.reasoning += d.text;
      if (d.what == engine::output_delta::kind::call) out.calls.emplace_back(d.name, "");
      if (d.what == engine::output_delta::kind::arguments) out.calls.back().second += d.text;
    }
  };
  add(parser.push(text));
  add(parser.finish());
  return out;
}

struct frame_bench {
  /// Whether the marks are control tokens of the vocabulary.
  frame_bench(const engine::output_frame& f, bool tokens) : frame(f) {
    std::vector<std::string> control;
    for (const auto mark : engine::marks_of(frame.format)) {
      if (tokens) control.emplace_back(mark);
    }
    control.emplace_back("<end>");
    vocabulary = std::make_unique<test::piece_tokenizer>(test::json_pieces(), control);
    table = engine::grammar::make_token_table(*vocabulary, vocabulary->vocab_size());
  }

  std::string generate(const std::shared_ptr<const engine::grammar::program>& program,
                       std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    engine::grammar::matcher m(program, table);
    std::string text;
    for (int i = 0; i < 3'000; ++i) {
      if (m.complete()) return text;
      const auto mask = m.mask();
      std::vector<engine::token_id> all, closing;
      for (engine::token_id t = 0; t < static_cast<engine::token_id>(vocabulary->vocab_size()); ++t) {
        if (!engine::allows(mask, t)) continue;
        all.push_back(t);
        const std::string& piece = vocabulary->text(t);
        // Marks are preferred where they may come, or random reasoning would not end.
        if (piece == "\"" || piece == "}" || piece == "]" || vocabulary->is_control(t)) closing.push_back(t);
      }
      BOOST_REQUIRE_MESSAGE(!all.empty(), text);
      const auto& from = !closing.empty() && random() % 3 == 0 ? closing : all;
      const engine::token_id token = from[random() % from.size()];
      if (token == vocabulary->end()) return text;
      BOOST_REQUIRE(m.accept(token));
      text += vocabulary->text(token);
    }
    return {};
  }

  bool valid(const boost::json::value& schema, const std::string& text) const {
    const auto program = engine::grammar::compile_json_schema(schema);
    BOOST_REQUIRE(program.has_value());
    engine::grammar::matcher m(*program, table);
    return m.accept_text(text) && m.may_end();
  }

  engine::output_frame frame;
  std::unique_ptr<test::piece_tokenizer> vocabulary;
  std::shared_ptr<const engine::grammar::token_table> table;
};

inline const boost::json::value& weather() {
  static const boost::json::value schema = boost::json::parse(R"({"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city"], "additionalProperties": false})");
  return schema;
}

/// The same as strict mode wants it.
inline const boost::json::value& strict_weather() {
  static const boost::json::value schema = [] {
    auto value = weather();
    value.as_object()["required"] = {"city", "days"};
    return value;
  }();
  return schema;
}

inline std::vector<engine::output_frame> frames() {
  std::vector<engine::output_frame> out;
  for (int i = 1; i < engine::call_formats; ++i) {
    engine::output_format format{static_cast<call_format>(i), false};
    for (const bool think : {false, true}) {
      if (think && format.calls == call_format::harmony) continue;
      format.think = think;
      if (think && format.calls == call_format::seed) format.reasoning = engine::reasoning_style::seed;
      if (think && format.calls == call_format::gemma4) format.reasoning = engine::reasoning_style::channel;
      if (think && format.calls == call_format::action) {
        format.reasoning = engine::reasoning_style::thinking;
        format.answer = engine::answer_style::response_tokens;
      }
      out.push_back({format, false, true});
      if (think) out.push_back({format, true, true});
      if (think) out.push_back({format, false, false});
    }
  }
  return out;
}

}  // namespace orcd::test
