// worker-orcd-inspect doctor: whether a file can be served, on which paths, what is odd about it, what it
// takes and how fast it should be.
#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/console/one_line.hpp"
#include "app/inspect/gpu_plan.hpp"
#include "app/inspect/inspect.hpp"
#include "app/inspect/odd_things.hpp"
#include "app/inspect/projector.hpp"
#include "app/inspect/speed_guess.hpp"
#include "engine/conversation/chat_format.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/gguf/location.hpp"
#include "engine/model/model_tensors.hpp"
#include "engine/model/not_a_model.hpp"
#include "engine/text/tokenizer.hpp"
#include "engine/text/utf8_buffer.hpp"
#include "gpu/host/host_tensors.hpp"
#include "gpu/plan/model_support.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;

/// What was found; a text is empty where its part could not be read.
struct doctor_report {
  std::vector<std::string> problems;       ///< why no backend serves it
  std::vector<std::string> cuda_problems;  ///< why the CUDA backend does not
  std::string model, tokenizer, chat;
  std::string one_sequence, several, prompts;  ///< ways of the CUDA backend
  std::vector<std::string> odd;
  std::optional<gpu_plan> memory;
  std::uint32_t context = 0;
  std::uint64_t token_bytes = 0;
  std::vector<speed_guess> speeds;
};

template <class More>
void add_all(std::vector<std::string>& to, More more) {
  for (auto& text : more) to.push_back(std::move(text));
}

void look_at_chat(const engine::gguf_file& file, bool generates, doctor_report& out) {
  const auto text = engine::chat_template_text(file);
  auto tokens = engine::special_token_texts(file);
  if (!text || !tokens) {
    out.problems.push_back((text ? tokens.error() : text.error()).message);
    return;
  }
  if (text->empty()) {
    out.chat = generates ? "no template: they are written as ChatML unless --chat-template FILE names another"
                         : "no template";
    return;
  }
  const auto format = engine::chat_format::make(*text, std::move(*tokens));
  if (!format) {
    out.problems.push_back("its chat template: " + format.error().message);
    return;
  }
  const engine::output_format& output = format->output();
  const bool calls = output.calls != engine::call_format::none;
  const bool parts = output.think || output.calls == engine::call_format::harmony;
  out.chat = "template of " + grouped(text->size()) + " bytes; tool calls " +
             (format->tells_tools() ? "in the generic form"
              : calls               ? "as " + std::string(engine::to_string(output.calls))
                                    : "stay text") +
             "; reasoning " + (parts ? "is parted from the answer" : "has no marks");
}

std::unique_ptr<engine::tokenizer> look_at_tokenizer(const engine::gguf_file& file,
                                                     const inspect_arguments& arguments, doctor_report& out) {
  const auto beside = engine::find_tokenizer_file(file, file.location(), "");
  if (!beside) {
    out.problems.push_back(beside.error().message);
    return nullptr;
  }
  auto made = engine::make_tokenizer(file, *beside, arguments.tokenizer_pre);
  if (!made) {
    out.problems.push_back(made.error().message);
    return nullptr;
  }
  out.tokenizer = std::string((*made)->kind()) + ", " + grouped((*made)->vocab_size()) + " tokens" +
                  (*beside ? ", of the tokenizer.json beside the file" : "");
  return std::move(*made);
}

void look_at_paths(const engine::model_spec& spec, doctor_report& out) {
  if (spec.pooling) {
    out.one_sequence = out.several = out.prompts = "many kernels: the model embeds or ranks";
    return;
  }
  const bool one_kernel = gpu::program_fits(spec);
  out.one_sequence = one_kernel ? std::string("one kernel for all layers, with an f16 cache") +
                                      (gpu::has_plain_head(spec) ? "" : "; the head by kernels of its own")
                                : "many kernels, as one graph";
  out.several = "many kernels, as one graph up to 32 sequences";
  out.prompts = spec.integer_activations ? "many kernels, with products of int8" : "many kernels";
}

void look_at_model(const engine::gguf_file& file, const engine::model& m, const inspect_arguments& arguments,
                   doctor_report& out) {
  const engine::model_spec& spec = m.spec;
  out.model = engine::valid_utf8(spec.name) + ": " + std::to_string(spec.layers.size()) + " layers, " +
              grouped(spec.embedding) + " wide, " +
              (spec.experts > 0 ? std::to_string(spec.experts_used) + " of " + std::to_string(spec.experts) +
                                      " experts a token, "
                                : "") +
              grouped(spec.vocab) + " rows of vocabulary, " + grouped(spec.context_length) + " positions";
  add_all(out.odd, odd_in_model(file, m));
  if (const auto host = gpu::check_host_support(m); !host) out.problems.push_back(host.error().message);
  if (const auto cuda = gpu::check_cuda_support(spec); !cuda)
    out.cuda_problems.push_back(cuda.error().message);
  out.context = arguments.context != 0 ? arguments.context : spec.context_length;
  gpu_plan_request wanted{arguments.slots, out.context, arguments.kv};
  if (arguments.vram_mib > 0) wanted.vram_bytes = std::uint64_t{arguments.vram_mib} << 20U;
  if (!out.cuda_problems.empty()) return;
  auto plan = plan_gpu(m, wanted);
  if (!plan) {
    out.cuda_problems.push_back(plan.error().message);
    return;
  }
  out.memory = std::move(*plan);
  look_at_paths(spec, out);
  if (spec.pooling) return;
  out.token_bytes = engine::bytes_read_per_token(m);
  out.speeds = guess_speeds(m, gpu::program_fits(spec));
}

doctor_report examine(const engine::gguf_file& file, const inspect_arguments& arguments) {
  doctor_report out;
  const auto projector = describe_projector(file);
  if (projector && *projector) {
    out.model = (*projector)->sentence;
    if (!(*projector)->cuda_problem.empty()) out.cuda_problems.push_back((*projector)->cuda_problem);
    return out;
  }
  if (const auto is_model = engine::check_is_model(file); !is_model) {
    const std::string why =
        projector ? "; --mmproj does not take it either: " + projector->error().message : "";
    out.problems.push_back(is_model.error().message + why);
    return out;
  }
  out.odd = odd_in_file(file);
  const auto tokenizer = look_at_tokenizer(file, arguments, out);
  const auto model = engine::load_model(file, arguments.context);
  if (model) {
    look_at_model(file, *model, arguments, out);
    if (tokenizer != nullptr) {
      add_all(out.odd, odd_in_tokenizer(file, *tokenizer, model->spec));
      if (tokenizer->vocab_size() > model->spec.vocab)
        out.problems.push_back("the tokenizer has more tokens than the model's vocabulary rows");
    }
  } else {
    out.problems.push_back(model.error().message);
  }
  look_at_chat(file, !model || !model->spec.pooling, out);
  if (const auto where = engine::parse_location(file.location())) {
    if (const auto name = projector_beside(where->name))
      out.odd.push_back("beside it lies " + *name +
                        ", which is used with --mmproj alone: without, it is served for text");
  }
  return out;
}

void add_line(std::string& out, std::string_view name, const std::string& text) {
  std::array<char, 16> head{};
  std::snprintf(head.data(), head.size(), "%-13.*s ", static_cast<int>(name.size()), name.data());
  out += head.data() + one_line(text) + "\n";
}

void add_list(std::string& out, std::string_view name, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    add_line(out, name, text);
    name = "";
  }
}

std::string in_mib(std::uint64_t bytes) {
  return grouped(bytes >> 20U) + " MiB";
}

std::string memory_text(const doctor_report& report, const inspect_arguments& arguments) {
  const gpu_plan& plan = *report.memory;
  std::string out = in_mib(plan.required_bytes) + " of VRAM for " + std::to_string(arguments.slots) +
                    " slot(s) of " + grouped(report.context) + " positions: weights " +
                    in_mib(plan.weights_bytes) + ", cache " + in_mib(plan.kv_bytes);
  if (const auto fits = plan.fits())
    out += std::string(*fits ? "; fits" : "; does not fit") + ", at most " + grouped(*plan.context_max) +
           " positions would";
  return out;
}

std::string speed_text(const speed_guess& guess, std::uint64_t token_bytes) {
  std::array<char, 160> line{};
  std::snprintf(
      line.data(), line.size(),
      "about %s tokens/s for one stream on an %s: %s a token, %.0f %% of the rate at which it reads",
      grouped(static_cast<std::uint64_t>(guess.tokens_per_second)).c_str(), std::string(guess.card).c_str(),
      in_mib(token_bytes).c_str(), 100.0 * guess.share);
  return line.data();
}

std::string as_text(const engine::gguf_file& file, const doctor_report& report,
                    const inspect_arguments& arguments) {
  std::string out;
  add_line(out, "file",
           std::string(file.location()) + ", " + in_mib(file.file_bytes()) + ", " + file.quant_kind());
  const bool loads = report.problems.empty();
  add_line(out, "loads",
           !loads                         ? "no"
           : report.cuda_problems.empty() ? "yes, on both backends"
                                          : "on the host backend alone");
  add_list(out, "problems", report.problems);
  add_list(out, "with CUDA", report.cuda_problems);
  if (!report.model.empty()) add_line(out, "model", report.model);
  if (!report.tokenizer.empty()) add_line(out, "tokenizer", report.tokenizer);
  if (!report.chat.empty()) add_line(out, "chats", report.chat);
  if (!report.one_sequence.empty()) {
    add_line(out, "one stream", report.one_sequence);
    add_line(out, "several", report.several);
    add_line(out, "prompts", report.prompts);
  }
  if (report.memory) add_line(out, "memory", memory_text(report, arguments));
  for (const speed_guess& guess : report.speeds)
    add_line(out, "speed", speed_text(guess, report.token_bytes));
  add_list(out, "odd", report.odd);
  return out;
}

json::array array_of(const std::vector<std::string>& texts) {
  json::array out;
  for (const std::string& text : texts) out.emplace_back(engine::valid_utf8(text));
  return out;
}

std::string as_json(const engine::gguf_file& file, const doctor_report& report) {
  json::array speeds;
  for (const speed_guess& guess : report.speeds)
    speeds.push_back(
        {{"card", guess.card}, {"tokens_per_second", guess.tokens_per_second}, {"share", guess.share}});
  json::object out{{"file", engine::valid_utf8(file.location())},
                   {"file_bytes", file.file_bytes()},
                   {"quant_kind", file.quant_kind()},
                   {"loads", report.problems.empty()},
                   {"loads_with_cuda", report.problems.empty() && report.cuda_problems.empty()},
                   {"problems", array_of(report.problems)},
                   {"cuda_problems", array_of(report.cuda_problems)},
                   {"model", report.model},
                   {"tokenizer", report.tokenizer},
                   {"chats", report.chat},
                   {"one_sequence", report.one_sequence},
                   {"several_sequences", report.several},
                   {"prompts", report.prompts},
                   {"bytes_per_token", report.token_bytes},
                   {"speeds", std::move(speeds)},
                   {"odd", array_of(report.odd)}};
  if (report.memory) {
    out["context"] = report.context;
    out["weights_bytes"] = report.memory->weights_bytes;
    out["required_bytes"] = report.memory->required_bytes;
    if (const auto fits = report.memory->fits()) out["fits"] = *fits;
  }
  return json::serialize(out) + "\n";
}

}  // namespace

engine::result<inspected> inspect_doctor(const inspect_arguments& arguments) {
  const auto file = engine::gguf_file::open(arguments.model);
  if (!file) return file.error();
  const doctor_report report = examine(*file, arguments);
  std::string text = arguments.json ? as_json(*file, report) : as_text(*file, report, arguments);
  if (!report.problems.empty()) return inspected{std::move(text), inspect_failed};
  const bool fits = !report.memory || report.memory->fits().value_or(true);
  return inspected{std::move(text), fits ? inspect_done : inspect_no_room};
}

}  // namespace orcd::app
