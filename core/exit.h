// The exit of Python, as threads see it that work without the GIL.
//
// A thread that asks for the GIL while Python is being torn down never gets it. Before 3.14 Python ends such a thread
// on the spot, under C++ frames that cannot be unwound, which aborts the process. So when Python is about to exit
// (atexit calls `begin_exit`, while threads can still take the GIL) all work is told to stop, and is waited for. A
// thread whose work was stopped does not return to Python: it sleeps until the process ends, as Python 3.14 makes it do
// anyway.
#pragma once

namespace intrs {

// Work should stop as soon as it can when this is true.
bool exit_begun();

// Is this the thread that called begin_exit?
bool is_exiting_thread();

// Tells all work to stop and waits until it has. Work that waits in a callback of its caller is waited for for a few
// seconds only: what it waits for may never come.
void begin_exit();

// Something that a thread does without the GIL. Not counted, and not allowed, if the exit has begun before it.
class Work {
 public:
  Work();
  ~Work() { end(); }
  Work(const Work&) = delete;

  bool allowed() const { return counted_; }
  void end();

 private:
  bool counted_;
};

// Work that runs a callback of its caller.
class InCallback {
 public:
  InCallback();
  ~InCallback();
  InCallback(const InCallback&) = delete;
};

}  // namespace intrs
