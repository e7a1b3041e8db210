// Arbitrary bytes as what a client of the token pipe sends: the first byte says in which protocol, the second
// into which pieces they are cut. Oracle beside the sanitizers: a refusal is one short line, a request keeps
// to the limits, and the context follows from the answers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "app/pipe/arguments.hpp"
#include "app/pipe/conversation.hpp"
#include "app/pipe/line_buffer.hpp"

namespace {

using namespace orcd;
using namespace orcd::app;

constexpr std::uint32_t vocabulary = 1'000, context = 64;
constexpr engine::token_id end_token = 7;

void expect(bool held) {
  if (!held) std::abort();
}

void expect_line(const engine::error& e) {
  expect(e.code == engine::errc::invalid_request && !e.message.empty() && e.message.size() < 4096);
  expect(std::none_of(e.message.begin(), e.message.end(), [](unsigned char c) { return c < 0x20U; }));
}

/// Hands the lines of `bytes` to `take`, which returns false when it wants no more.
template <class Field, class Take>
void each_line(std::string_view bytes, std::size_t piece, Field most, Take take) {
  line_buffer buffer;
  for (;;) {
    const auto line = buffer.next("a line", most());
    if (!line) return expect_line(line.error());
    if (*line) {
      expect((*line)->size() <= most() && (*line)->find('\n') == std::string_view::npos);
      if (!take(**line)) return;
    } else if (buffer.closed()) {
      return;
    } else if (bytes.empty()) {
      buffer.close();
    } else {
      buffer.add(bytes.substr(0, piece));
      bytes.remove_prefix(std::min(piece, bytes.size()));
    }
  }
}

/// Answers with as many tokens as the plan allows, the last one an EOS where the request says so. `over`: the
/// talk has a turn that did not fit.
bool respond(conversation& talk, bool& over, const pipe_request& request, limit_style style) {
  const std::size_t before = talk.size();
  const bool ends_talk = style == limit_style::end_token;
  auto plan = talk.plan(request);
  if (!plan) {
    expect_line(plan.error());
    return false;
  }
  const bool has_room = request.keep.value_or(before) + request.tokens.count <= context;
  expect(plan->fits == (has_room && (request.keep || !over)));
  over = !plan->fits && ends_talk;
  if (!plan->fits) {
    talk.cut(plan->keep);
    expect(talk.size() == request.keep.value_or(ends_talk ? 0 : before) && talk.size() <= before);
    return true;
  }
  expect(!plan->prompt.empty() && plan->prompt.size() + plan->tokens_max <= context);
  answer given(request.max_tokens, end_token, style, plan->prompt.size());
  const bool ends = request.sampling.top_k % 2 == 1 && plan->tokens_max > 0;
  std::size_t lines = 0;
  for (std::uint32_t i = 0; i < plan->tokens_max; ++i, ++lines) {
    const auto token = static_cast<engine::token_id>(i % 5);
    static_cast<void>(ends && i + 1 == plan->tokens_max ? given.generated_end(end_token)
                                                        : given.generated(token));
  }
  if (given.over()) ++lines;
  expect(request.max_tokens == 0 || lines <= request.max_tokens);
  const std::size_t position = given.kv_position();
  talk.become(std::move(plan->prompt), given);
  expect(talk.size() == position && position <= context);
  return true;
}

void as_requests(std::string_view bytes, std::size_t piece, pipe_protocol protocol, limit_style style) {
  request_reader reader(protocol, vocabulary, context);
  conversation talk(context, style);
  bool over = false;
  each_line(
      bytes, piece, [&] { return reader.line_max(); },
      [&](std::string_view line) {
        expect(!reader.field().empty());
        const auto request = reader.take(line);
        if (!request) {
          expect_line(request.error());
          return false;
        }
        if (!*request) return true;
        expect(reader.between() && (*request)->tokens.ids.size() <= context);
        for (const auto id : (*request)->tokens.ids) expect(id >= 0 && id < static_cast<int>(vocabulary));
        const auto& sampling = (*request)->sampling;
        expect(sampling.temperature >= 0.0F && sampling.temperature <= 1e6F);
        expect(sampling.top_p > 0.0F && sampling.top_p <= 1.0F);
        expect(sampling.repetition_penalty >= 1e-3F && sampling.repetition_penalty <= 1e3F);
        return !(*request)->quit && respond(talk, over, **request, style);
      });
}

void check(const sdk_config& config) {
  expect(config.arch_type >= 1 && config.arch_type <= 7 && config.vocab_size >= 1);
  expect(!config.eos.empty() && config.eos.size() <= pipe_eos_max);
  for (const auto id : config.eos) expect(id >= 0 && static_cast<std::uint32_t>(id) < config.vocab_size);
}

void as_first_block(std::string_view bytes, std::size_t piece) {
  config_block block;
  each_line(
      bytes, piece, [&] { return block.begun() ? block_line_max : number_line_max; },
      [&](std::string_view line) {
        const auto config = block.take(line);
        if (!config) expect_line(config.error());
        if (config && *config) check(**config);
        return config && !*config && !block.quit();
      });
}

void as_words(std::string_view bytes) {
  std::vector<std::string_view> words;
  for (std::size_t end = 0; end != bytes.npos; bytes.remove_prefix(end == bytes.npos ? 0 : end + 1)) {
    end = bytes.find('\n');
    words.push_back(bytes.substr(0, end));
  }
  const auto parsed = parse_pipe_arguments(words);
  if (!parsed) return expect_line(parsed.error());
  if (parsed->config) check(*parsed->config);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t piece = std::size_t{data[1]} + 1;
  const auto style = data[0] % 2 == 0 ? limit_style::end_token : limit_style::literal;
  switch (data[0] / 2 % 4) {
    case 0: as_requests(bytes, piece, pipe_protocol::lines, style); break;
    case 1: as_requests(bytes, piece, pipe_protocol::blocks, style); break;
    case 2: as_first_block(bytes, piece); break;
    default: as_words(bytes); break;
  }
  return 0;
}
