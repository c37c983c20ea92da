#include "execute/device/worker_pool.hpp"

namespace tessera {

std::byte* WorkerPool::Scratch::room(std::int64_t bytes) {
    if (tile.bytes() < bytes) tile = Buffer(bytes);
    return tile.data();
}

WorkerPool::WorkerPool(int threads, std::function<void(std::exception_ptr)> failed) : failed_(std::move(failed)) {
    threads_.reserve(static_cast<std::size_t>(threads));
    try {
        for (int t = 0; t < threads; ++t) threads_.emplace_back([this, t] { work(t); });
    } catch (...) {
        stop();
        throw;
    }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() noexcept {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        tasks_.clear();
        later_.clear();
    }
    wake_.notify_all();
    for (auto& t : threads_)
        if (t.joinable()) t.join();
}

void WorkerPool::submit(Task task) { put(tasks_, std::move(task)); }
void WorkerPool::submit_later(Task task) { put(later_, std::move(task)); }

void WorkerPool::put(std::deque<Task>& queue, Task task) {
    {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
        queue.push_back(std::move(task));
    }
    wake_.notify_one();
}

void WorkerPool::work(int thread) {
    Scratch scratch;
    scratch.thread = thread;
    for (;;) {
        Task task;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return stop_ || !tasks_.empty() || !later_.empty(); });
            if (stop_) return;
            auto& queue = tasks_.empty() ? later_ : tasks_;
            task = std::move(queue.front());
            queue.pop_front();
        }
        try {
            task(scratch);
        } catch (...) {
            failed_(std::current_exception());
        }
    }
}

}  // namespace tessera
