#include "engine/text/spm_tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "engine/text/utf8.hpp"

namespace orcd::engine {

class spm_tokenizer::spm_run final : public run {
 public:
  explicit spm_run(const spm_tokenizer& t) : t_(t) {}

  void plain(std::string_view text, std::size_t, const encode_options&, std::vector<token_id>& out) override {
    spell(text);
    cut();
    heap_.clear();
    for (std::uint32_t i = 0; i + 1 < symbols_.size(); ++i) offer(i);
    merge();
    for (std::uint32_t i = 0; i != none; i = symbols_[i].next) emit(symbols_[i], out);
  }

 private:
  static constexpr std::uint32_t none = 0xFFFFFFFF;
  struct symbol {
    std::uint32_t from;  // in text_
    std::uint32_t size;  // 0 once merged into its left neighbour
    std::uint32_t prev;
    std::uint32_t next;
  };
  struct candidate {
    float score;
    std::uint32_t left;
    std::uint32_t right;
    std::uint32_t size;  // of both together, to notice that one of them has changed
  };
  static bool later(const candidate& a, const candidate& b) {
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  }

  void spell(std::string_view text) {
    constexpr std::string_view metaspace = "\xE2\x96\x81";
    text_.clear();
    if (t_.settings_.space_prefix) text_.append(metaspace);
    for (const char c : text) {
      if (c == ' ') {
        text_.append(metaspace);
      } else {
        text_.push_back(c);
      }
    }
  }

  void cut() {
    symbols_.clear();
    const char* const end = text_.data() + text_.size();
    for (const char* p = text_.data(); p != end;) {
      const std::uint32_t size = utf8::decode(p, end).size;
      const auto i = static_cast<std::uint32_t>(symbols_.size());
      symbols_.push_back({static_cast<std::uint32_t>(p - text_.data()), size, i == 0 ? none : i - 1, i + 1});
      p += size;
    }
    if (!symbols_.empty()) symbols_.back().next = none;
  }

  void offer(std::uint32_t left) {
    const symbol& a = symbols_[left];
    if (a.next == none) return;
    const std::uint32_t size = a.size + symbols_[a.next].size;
    const token_id id = t_.vocab_.find(std::string_view(text_).substr(a.from, size));
    if (id < 0) return;
    heap_.push_back({t_.settings_.scores[static_cast<std::size_t>(id)], left, a.next, size});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  void merge() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const candidate c = heap_.back();
      heap_.pop_back();
      symbol& a = symbols_[c.left];
      symbol& b = symbols_[c.right];
      if (a.size == 0 || b.size == 0 || a.next != c.right || a.size + b.size != c.size) continue;
      a.size = c.size;
      b.size = 0;
      a.next = b.next;
      if (a.next != none) symbols_[a.next].prev = c.left;
      if (a.prev != none) offer(a.prev);
      offer(c.left);
    }
  }

  void emit(const symbol& s, std::vector<token_id>& out) const {
    const std::string_view text = std::string_view(text_).substr(s.from, s.size);
    if (const token_id id = t_.vocab_.find(text); id >= 0) return out.push_back(id);
    for (const char c : text) {
      const token_id id = t_.vocab_.of_byte(static_cast<unsigned char>(c));
      if (id >= 0) {
        out.push_back(id);
      } else if (t_.settings_.unknown >= 0) {
        out.push_back(t_.settings_.unknown);
      }
    }
  }

  const spm_tokenizer& t_;
  std::string text_;
  std::vector<symbol> symbols_;
  std::vector<candidate> heap_;
};

spm_tokenizer::spm_tokenizer(vocabulary vocab, spm_settings settings, vocab_rules rules)
    : vocab_tokenizer(std::move(vocab), std::move(rules)), settings_(std::move(settings)) {}

std::unique_ptr<vocab_tokenizer::run> spm_tokenizer::start() const {
  return std::make_unique<spm_run>(*this);
}

}  // namespace orcd::engine
