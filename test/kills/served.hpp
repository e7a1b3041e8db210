// One connection of an engine of the test of kills, from the first byte to the end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "net/failover/held_socket.hpp"
#include "net/http/connection.hpp"
#include "net/journal/journal_record.hpp"
#include "test/kills/channel.hpp"
#include "test/kills/death.hpp"
#include "test/kills/exchange.hpp"

namespace orcd::kills {

/// Whether some tokens of an answer are told, and not the last ones.
[[nodiscard]] bool is_under_way(const net::recovered_connection& before) noexcept;

class served {
 public:
  /// `kept`: what the journal tells of it.
  served(net::held_socket held, net::journalled kept, board& counts, death& end);

  [[nodiscard]] int socket() const noexcept { return held_.socket.get(); }
  [[nodiscard]] const net::held_socket& held() const noexcept { return held_; }
  /// poll()'s events that it waits for.
  [[nodiscard]] short wanted() const noexcept;
  /// Goes on as far as the kernel lets it. False where the connection is over.
  [[nodiscard]] bool move(short ready);
  /// Shuts the connection down and frees its record; the holder is told afterwards.
  void end();

 private:
  void recover(net::recovered_connection before);
  [[nodiscard]] bool is_writing() const noexcept { return written_ < write_.size(); }
  bool read_some();
  void read_question();
  void check_recovered(const asked& what);
  void answer_some();
  bool send_some();
  void finish_write();
  bool drop_input();
  void begin_question();
  void set_under_way(bool is) noexcept;

  net::held_socket held_;
  std::unique_ptr<net::journal_record> record_;
  board& counts_;
  noted_bytes& noted_;
  death& end_;
  std::string input_;                                ///< from the question's first byte on
  std::optional<asked> question_;                    ///< whole, and being answered
  std::optional<net::recovered_connection> before_;  ///< until the question is whole again
  std::uint32_t tokens_ = 0;                         ///< of the answer that are made
  std::uint32_t draw_ = 1;
  std::string write_;
  std::size_t written_ = 0;
  bool last_ = false;       ///< the write in hand ends the answer
  bool close_ = false;      ///< and the connection
  bool under_way_ = false;  ///< an answer with some tokens sent, and not the last ones
  bool finished_ = false;   ///< the sending side is shut down
};

}  // namespace orcd::kills
