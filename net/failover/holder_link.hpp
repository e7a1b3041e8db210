// An engine's side of the holder's socket. The holder accepts the clients' connections and keeps a duplicate
// of each, so that none ends with the engine that serves it; the active engine gets them here. io thread
// only. A holder that ends is no harm: the engine has its own sockets, the listening socket and the journal,
// and gives all of them to the next holder.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/failover/file_descriptor.hpp"
#include "net/failover/frame_socket.hpp"
#include "net/failover/held_socket.hpp"
#include "net/failover/holder_frames.hpp"

namespace orcd::net {

/// What an engine takes over.
struct held_connections {
  std::vector<held_socket> sockets{};
  std::vector<held_place> waiting{};  ///< those that come later, when others have been closed
};

/// All on the io thread, none from within a call of the link.
struct holder_events {
  /// A client has connected; only after take_over() or offer().
  std::function<void(held_socket)> accepted;
  /// One that was said to wait at take_over().
  std::function<void(held_socket)> came_late;
  /// After take_over(): the engines before have ended, and the device does nothing for them any more.
  std::function<void()> rested;
  /// The holder is gone. It is looked for from now on.
  std::function<void()> lost;
  /// A holder is there again. An active engine calls offer(): the holder may have nothing, and cannot know
  /// what has changed meanwhile.
  std::function<void()> connected;
  /// An operator has told the holder by a signal what is to be done.
  std::function<void(signal_frame::kind)> signalled;
};

class holder_link {
 public:
  using held_handler = std::function<void(held_connections)>;

  /// `self`: what the engine says of itself.
  holder_link(boost::asio::io_context& io, std::string socket_path, hello_frame self, holder_events events);
  ~holder_link();
  holder_link(const holder_link&) = delete;
  holder_link& operator=(const holder_link&) = delete;

  /// Connects and waits for the holder's first answer, for 5 s at most; `connected` is not called for it.
  /// Errors: not_ready, naming the path and the reason; nothing is tried again then.
  [[nodiscard]] engine::result<void> open();

  [[nodiscard]] bool is_connected() const noexcept { return welcomed_; }
  /// Whether the holder has a journal and a listening socket of its own.
  [[nodiscard]] bool is_complete() const noexcept { return complete_; }
  /// The latest ones that a holder sent before this engine had settled, which go on with it; they stay when
  /// the holder is gone. -1 before.
  [[nodiscard]] int journal() const noexcept { return journal_.get(); }
  [[nodiscard]] int listener() const noexcept { return listener_.get(); }

  /// This engine is the active one, with descriptors for `room` connections, at least 1. `done` gets all
  /// connections that the holder has, later and once; `accepted` is called from then on. With no holder there
  /// it gets none. What a holder had sent when it was lost comes too.
  void take_over(std::uint32_t room, held_handler done);
  /// The engine has shut this connection down and closed it: the holder closes its duplicate.
  void closed(std::uint32_t slot, std::uint64_t serial);
  /// This engine goes on with all that it took over: whoever handed over to it may end.
  void settled();
  /// Nobody can read the journal, and what take_over() brought is closed: the holder makes another one, which
  /// is here when the next take_over() is done.
  void report_damaged_journal();
  /// This engine is not the active one any more: another may take over. `rests`: the device does nothing for
  /// this engine any more; else that is over with its process.
  void yield(bool rests);
  /// This engine could take over, and answers as all engines of this identity do; until take_over(). Again
  /// when that changes.
  void stand_by(answer_identity answers);
  /// What the holder knows; `told` gets nothing where there is no answer within a second. One question at a
  /// time: the one before gets nothing.
  void ask(answer_identity answers, std::function<void(std::optional<report_frame>)> told);
  /// Gives the holder journal, listening socket and all connections that are open here, instead of
  /// take_over(); others that it has it ends. The engine must have stopped accepting by itself.
  void offer();
  /// This engine has read keys and log level again because its operator told it so; the others are told, at
  /// once or by the next holder.
  void reloaded();
  /// A sign of life of the io thread; `progress` changes whenever the GPU thread has moved.
  void ping(std::uint64_t progress);

  /// A connection that the engine has accepted itself while no holder was there gets a place as if it had
  /// come from one; nullopt when there are held_sockets_max.
  [[nodiscard]] std::optional<held_socket> keep(file_descriptor socket);

 private:
  engine::result<void> connect();
  void on_frame(frame_socket::received got);
  void on_welcome(const welcome_frame& what, std::vector<file_descriptor> descriptors);
  void on_sockets(const sockets_frame& what, std::vector<file_descriptor> descriptors);
  void on_end();
  void look_again();
  void finish_take_over();
  void post(std::function<void()> what);

  boost::asio::io_context& io_;
  const std::string path_;
  const hello_frame self_;
  const holder_events events_;
  void answer(std::optional<report_frame> report);
  boost::asio::steady_timer look_;
  boost::asio::steady_timer answer_timer_;
  std::shared_ptr<frame_socket> socket_;
  file_descriptor journal_;
  file_descriptor listener_;
  bool opening_ = false;  ///< open() waits for the first answer
  bool welcomed_ = false;
  bool complete_ = false;
  bool settled_ = false;  ///< until take_over() or yield(): what is in hand is in this journal
  bool untold_reload_ = false;
  std::optional<answer_identity> standby_;  ///< while this engine stands by
  std::function<void(std::optional<report_frame>)> asked_;
  std::uint32_t question_ = 0;
  held_handler taking_over_;  ///< until all connections are here
  held_connections taken_;    ///< those that are
  /// A connection that this engine has, without owning its socket: the number may be another file's by now,
  /// which the cookie tells.
  struct known_socket {
    std::uint64_t serial = 0;  ///< 0: the slot is free
    int socket = -1;
    std::uint64_t cookie = 0;  ///< the kernel's, of this socket only
  };
  void note(held_place place, int socket);
  std::vector<known_socket> known_ = std::vector<known_socket>(held_sockets_max);
  std::uint64_t next_serial_ = 1;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< what posted handlers look at
};

}  // namespace orcd::net
