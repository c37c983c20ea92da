#pragma once
// Threads that take short pieces of work in the order they come: packing and unpacking tiles, and, where none of that
// waits, making them.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "storage/buffer.hpp"

namespace tessera {

class WorkerPool {
  public:
    /// What a thread keeps between pieces of work.
    struct Scratch {
        int thread = 0;
        Buffer tile;
        /// At least this much memory; what it held is gone.
        std::byte* room(std::int64_t bytes);
    };
    using Task = std::function<void(Scratch&)>;

    /// A task that throws ends up in `failed`, called from its thread.
    WorkerPool(int threads, std::function<void(std::exception_ptr)> failed);
    /// Work not yet begun is dropped.
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;
    void submit(Task task);
    /// To be begun when nothing else waits.
    void submit_later(Task task);
    /// Drops what has not begun and waits for what has.
    void stop() noexcept;

  private:
    void put(std::deque<Task>& queue, Task task);
    void work(int thread);
    std::function<void(std::exception_ptr)> failed_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Task> tasks_, later_;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace tessera
