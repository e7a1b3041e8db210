// Tokenizers from a Hugging Face tokenizer.json: the model and its added tokens.
#include "engine/text/json_tokenizer.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "engine/text/end_of_generation.hpp"
#include "engine/text/json_config.hpp"
#include "engine/text/nfc.hpp"

namespace orcd::engine {

namespace json = boost::json;

namespace {

constexpr std::size_t max_json_bytes = 64u << 20;
constexpr std::size_t max_depth = 64;
constexpr std::size_t max_merges = 1u << 22;

std::string_view view(const json::string& s) {
  return {s.data(), s.size()};
}

struct added_token {
  std::string_view content;
  token_id id = -1;
  bool special = false;
  bool lstrip = false;
  bool rstrip = false;
  bool single_word = false;
  bool normalized = false;
};

result<token_id> token_id_of(const json::value& v, std::string_view what) {
  const std::int64_t* id = v.if_int64();
  if (id == nullptr || *id < 0 || *id >= static_cast<std::int64_t>(vocabulary::max_tokens)) {
    return json_error(std::string(what) + " has an id that is not an integer from 0 to " +
                      std::to_string(vocabulary::max_tokens - 1));
  }
  return static_cast<token_id>(*id);
}

result<added_token> read_added_token(const json::value& v) {
  const json::object* o = v.if_object();
  const json::value* id = o != nullptr ? member(*o, "id") : nullptr;
  if (id == nullptr) return json_error("added_tokens holds an item without id");
  added_token t;
  t.content = string_member(*o, "content");
  if (t.content.empty()) return json_error("added_tokens holds an item without content");
  const auto number = token_id_of(*id, "added_tokens");
  if (!number) return number.error();
  t.id = *number;
  for (const auto& [name, field] : {std::pair<std::string_view, bool*>{"special", &t.special},
                                    {"lstrip", &t.lstrip},
                                    {"rstrip", &t.rstrip},
                                    {"single_word", &t.single_word},
                                    {"normalized", &t.normalized}}) {
    const auto flag = bool_member(*o, name, false);
    if (!flag) return flag.error();
    *field = *flag;
  }
  return t;
}

// Reads added_tokens. A token that the model's vocabulary has too keeps the id that it has there.
result<std::vector<added_token>> read_added_tokens(const json::object& root, const json::object& vocab) {
  std::vector<added_token> tokens;
  const json::value* list = member(root, "added_tokens");
  if (list == nullptr) return tokens;
  if (!list->is_array()) return json_error("added_tokens is not a list");
  for (const json::value& item : list->get_array()) {
    auto token = read_added_token(item);
    if (!token) return token.error();
    if (const json::value* id = vocab.if_contains(token->content)) {
      const auto known = token_id_of(*id, "vocab");
      if (!known) return known.error();
      token->id = *known;
    }
    tokens.push_back(*token);
  }
  return tokens;
}

class loader {
 public:
  loader(const json::object& root, const special_ids& ids) : root_(root), ids_(ids) {}

  result<std::unique_ptr<tokenizer>> load() {
    if (auto s = read_model(); !s) return s.error();
    auto pipeline = read_pipeline(root_);
    if (!pipeline) return pipeline.error();
    pipeline_ = std::move(*pipeline);
    auto vocab = read_vocab();
    if (!vocab) return vocab.error();
    auto merges = read_merges(*vocab);
    if (!merges) return merges.error();
    auto rules = read_rules(*vocab);
    if (!rules) return rules.error();
    return std::unique_ptr<tokenizer>(std::make_unique<bpe_tokenizer>(
        std::move(*vocab), std::move(*merges), std::move(settings_), std::move(*rules)));
  }

 private:
  result<void> read_model() {
    const json::value* model = member(root_, "model");
    if (model == nullptr || !model->is_object()) return json_error("no object 'model'");
    model_ = &model->get_object();
    const std::string_view type = string_member(*model_, "type");
    // Files of old versions leave the type out; only BPE has merges.
    if (type != "BPE" && !(type.empty() && member(*model_, "merges") != nullptr)) {
      return json_error("model type '" + std::string(type.substr(0, 64)) + "' is not supported, only BPE is");
    }
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!string_member(*model_, name).empty()) return json_error(std::string(name) + " is not supported");
    }
    if (const json::value* dropout = member(*model_, "dropout")) {
      boost::system::error_code ec;
      if (dropout->to_number<double>(ec) != 0.0 || ec) return json_error("dropout is not supported");
    }
    for (const auto& [name, field] :
         {std::pair<std::string_view, bool*>{"ignore_merges", &settings_.ignore_merges},
          {"fuse_unk", &settings_.fuse_unknown},
          {"byte_fallback", &byte_fallback_}}) {
      const auto flag = bool_member(*model_, name, false);
      if (!flag) return flag.error();
      *field = *flag;
    }
    return {};
  }

  result<vocabulary> read_vocab() {
    const json::value* v = member(*model_, "vocab");
    if (v == nullptr || !v->is_object()) return json_error("no object 'model.vocab'");
    const json::object& words = v->get_object();
    if (words.size() > vocabulary::max_tokens) {
      return json_error(std::to_string(words.size()) + " tokens, the limit is " +
                        std::to_string(vocabulary::max_tokens));
    }
    auto added = read_added_tokens(root_, words);
    if (!added) return added.error();
    added_ = std::move(*added);
    std::vector<token_entry> tokens;
    const auto place = [&tokens](token_id id) -> token_entry& {
      if (tokens.size() <= static_cast<std::size_t>(id)) tokens.resize(static_cast<std::size_t>(id) + 1);
      return tokens[static_cast<std::size_t>(id)];
    };
    for (const json::key_value_pair& word : words) {
      const auto id = token_id_of(word.value(), "vocab");
      if (!id) return id.error();
      token_entry& entry = place(*id);
      if (entry.kind != token_kind::absent) {
        return json_error("two tokens of vocab have the id " + std::to_string(*id));
      }
      const std::string_view text(word.key().data(), word.key().size());
      const bool byte = byte_fallback_ && !pipeline_.byte_level && parse_byte_piece(text) >= 0;
      entry = {text, byte ? token_kind::byte : token_kind::normal};
    }
    for (const added_token& t : added_) {
      token_entry& entry = place(t.id);
      if (entry.kind != token_kind::absent && entry.piece != t.content) {
        return json_error("an added token has the id " + std::to_string(t.id) + " of another token");
      }
      entry = {t.content, t.special ? token_kind::control : token_kind::user_defined};
    }
    settings_.how = pipeline_.byte_level ? spelling::byte_level : spelling::sentencepiece;
    return vocabulary::make(tokens, settings_.how);
  }

  // Splits one entry of merges, "left right" or ["left","right"]; empty parts when it is neither.
  static std::pair<std::string_view, std::string_view> halves(const json::value& merge) {
    if (const json::string* s = merge.if_string()) {
      const std::string_view text = view(*s);
      const std::size_t space = text.find(' ', 1);
      if (space == std::string_view::npos) return {};
      return {text.substr(0, space), text.substr(space + 1)};
    }
    const json::array* a = merge.if_array();
    if (a == nullptr || a->size() != 2 || !(*a)[0].is_string() || !(*a)[1].is_string()) return {};
    return {view((*a)[0].get_string()), view((*a)[1].get_string())};
  }

  result<merge_table> read_merges(const vocabulary& vocab) const {
    const json::value* v = member(*model_, "merges");
    if (v == nullptr || !v->is_array()) return json_error("no list 'model.merges'");
    const json::array& merges = v->get_array();
    if (merges.size() > max_merges) {
      return json_error(std::to_string(merges.size()) + " merges, the limit is " +
                        std::to_string(max_merges));
    }
    merge_table table(merges.size());
    std::string text;
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const auto [left, right] = halves(merges[rank]);
      if (left.empty() || right.empty()) {
        return json_error("merges[" + std::to_string(rank) + "] is not two tokens");
      }
      text.clear();
      append(left, text);
      const std::size_t cut = text.size();
      append(right, text);
      const std::string_view all = text;
      const token_id a = vocab.find(all.substr(0, cut));
      const token_id b = vocab.find(all.substr(cut));
      const token_id merged = vocab.find(all);
      if (a >= 0 && b >= 0 && merged >= 0) {
        table.add(a, b, {static_cast<std::uint32_t>(rank), merged});
      } else if (!in_vocab(left) || !in_vocab(right) || !in_vocab(std::string(left).append(right))) {
        return json_error("merges[" + std::to_string(rank) + "] names a token that is not in vocab");
      }
    }
    return table;
  }

  void append(std::string_view piece, std::string& out) const {
    if (pipeline_.byte_level) {
      append_byte_level(piece, out);
    } else {
      out.append(piece);
    }
  }

  [[nodiscard]] bool in_vocab(std::string_view piece) const {
    return model_->at("vocab").get_object().contains(piece);
  }

  result<vocab_rules> read_rules(vocabulary& vocab) {
    vocab_rules rules;
    rules.end_of_generation = mark_end_tokens(vocab);
    const auto known = [&vocab](token_id id) { return vocab.kind(id) == token_kind::absent ? -1 : id; };
    for (const token_id id : {ids_.eos, ids_.eot, ids_.eom}) {
      if (known(id) >= 0) rules.end_of_generation.push_back(id);
    }
    add_specials(rules);
    if (auto s = resolve(pipeline_.before, rules.prefix); !s) return s.error();
    if (auto s = resolve(pipeline_.behind, rules.suffix); !s) return s.error();
    apply_harmony(vocab, rules.end_of_generation);
    rules.bos = rules.prefix.empty() ? known(ids_.bos) : rules.prefix.front();
    rules.eos = known(ids_.eos) >= 0 ? ids_.eos : likely_eos(vocab, rules.end_of_generation);
    rules.strip_leading_space = pipeline_.strip_leading_space;
    rules.kind =
        "tokenizer.json/" + (pipeline_.byte_level ? pipeline_.scanner : std::string("byte-fallback"));
    settings_.stages = pipeline_.stages;
    settings_.nfc = pipeline_.nfc;
    settings_.prefix = pipeline_.prefix;
    const std::string_view unknown = string_member(*model_, "unk_token");
    if (!unknown.empty()) settings_.unknown = vocab.find_piece(unknown);
    return rules;
  }

  void add_specials(vocab_rules& rules) {
    for (const added_token& t : added_) {
      const special_token token{t.id, t.special, t.lstrip, t.rstrip, t.single_word};
      // Only NFC can change the text of a token; the spelling of spaces cannot.
      if (t.normalized && pipeline_.nfc) {
        settings_.normalized_specials.add(to_nfc(t.content), token);
      } else {
        rules.specials.add(t.content, token);
      }
    }
  }

  // The ids of the tokens that the post-processor names.
  result<void> resolve(const std::vector<std::string>& contents, std::vector<token_id>& out) const {
    for (const std::string& content : contents) {
      const auto at =
          std::find_if(added_.begin(), added_.end(), [&](const auto& t) { return t.content == content; });
      if (at == added_.end())
        return json_error("TemplateProcessing names a token that is not in added_tokens");
      out.push_back(at->id);
    }
    return {};
  }

  const json::object& root_;
  special_ids ids_;
  const json::object* model_ = nullptr;
  bool byte_fallback_ = false;
  json_pipeline pipeline_;
  std::vector<added_token> added_;
  bpe_settings settings_;
};

}  // namespace

result<std::unique_ptr<tokenizer>> make_json_tokenizer(std::string_view text, const special_ids& ids) {
  if (text.size() > max_json_bytes) {
    return json_error(std::to_string(text.size()) + " bytes, the limit is " + std::to_string(max_json_bytes));
  }
  json::monotonic_resource memory;
  json::parse_options options;
  options.max_depth = max_depth;
  boost::system::error_code ec;
  const json::value root = json::parse({text.data(), text.size()}, ec, &memory, options);
  if (ec)
    return json_error("not valid JSON of at most " + std::to_string(max_depth) + " levels: " + ec.message());
  if (!root.is_object()) return json_error("not an object");
  return loader(root.get_object(), ids).load();
}

result<std::unique_ptr<tokenizer>> make_json_tokenizer(std::string_view json) {
  return make_json_tokenizer(json, special_ids{});
}

}  // namespace orcd::engine
