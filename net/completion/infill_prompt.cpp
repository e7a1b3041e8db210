#include "net/completion/infill_prompt.hpp"

#include <utility>

namespace orcd::net {
namespace {

using ids = std::vector<engine::token_id>;

/// Text of files is never read as special tokens.
prompt_text plain(std::string text) {
  return {std::move(text), false, false};
}

void add_files(text_prompt& out, std::vector<infill_file>& files, const engine::infill_tokens& tokens) {
  if (!files.empty() && tokens.repository >= 0) {
    out.emplace_back(ids{tokens.repository});
    out.emplace_back(plain("project\n"));
  }
  for (infill_file& file : files) {
    if (tokens.file >= 0) {
      out.emplace_back(ids{tokens.file});
      out.emplace_back(plain((file.name.empty() ? "file" : file.name) + "\n"));
    } else {
      out.emplace_back(plain("\n\n--- snippet ---\n\n"));
    }
    out.emplace_back(plain(std::move(file.text)));
  }
  if (!files.empty() && tokens.file >= 0) {
    out.emplace_back(ids{tokens.file});
    out.emplace_back(plain("current\n"));
  }
}

}  // namespace

text_prompt make_infill_prompt(infill_parts parts, const engine::infill_tokens& tokens) {
  text_prompt out;
  out.emplace_back(prompt_text{{}, false, true});  // BOS, where the model's rules add it
  add_files(out, parts.extra, tokens);
  out.emplace_back(ids{tokens.prefix});
  out.emplace_back(plain(parts.prefix + parts.prompt));
  out.emplace_back(ids{tokens.suffix});
  out.emplace_back(plain(std::move(parts.suffix)));
  out.emplace_back(ids{tokens.middle});
  return out;
}

}  // namespace orcd::net
