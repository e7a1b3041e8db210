#include "net/llama/llama_completion.hpp"

#include "net/completion/serve_completion.hpp"
#include "net/llama/llama_answer.hpp"
#include "net/llama/llama_request.hpp"

namespace orcd::net {
namespace {

written_answer write_answer(const service& s, const prepared_completion& prepared,
                            std::chrono::system_clock::time_point) {
  return make_llama_answer(prepared, answered_model(s, prepared.asked), s.context.tokenizer,
                           std::chrono::steady_clock::now);
}

}  // namespace

asio::awaitable<bool> handle_llama_completion(service& s, connection& c, const http_request& request,
                                              endpoint target) {
  const bool infill = target == endpoint::infill;
  const completion_api api{
      {target, "cmpl-", infill ? "input_prefix" : "prompt", infill ? parse_infill : parse_llama_completion},
      write_answer};
  co_return co_await serve_completion(s, c, request, api);
}

}  // namespace orcd::net
