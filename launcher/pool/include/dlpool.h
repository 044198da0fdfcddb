/* SPDX-License-Identifier: Apache-2.0
 *
 * dlpool.h: the public C API of libdlpool, which makes an object of the program's own an *elastic pool*: several
 * processes (members) hold its keys between them, clients address them as one, and members join and leave while the
 * pool serves. C++ programs use dlpool.hpp, a class template over these functions. dlpool(3) is an overview.
 *
 * Terms. A *key* is any text; it belongs to one of 1,024 *slots* for ever. Each slot has one *owner* and, unless the
 * pool was opened without, one *copy* at another member. The *directory* says who owns which slot; it is part of one
 * process that lives as long as the pool, such as learner 0, and carries no updates.
 *
 * What is promised
 *   - An update is applied once. One whose answer was lost with a connection, or that met a slot that was moving, is
 *     sent again by the client, and the slot answers as it did before if it had applied it.
 *   - An update that was answered is not lost when members join or leave. With copies it is not lost either when a
 *     member is killed, or its host, before the slots of the last one that was killed had copies again; that takes as
 *     long as it takes to send them. What is lost beyond that is never served as if it were empty: calls fail with
 *     LOST.
 *   - A client's calls for one key are carried out in their order, those of different keys in any.
 *   - A read sees all updates that were answered before it was called. Only a member that was given up although it
 *     lives may answer one without the latest of them, in the seconds until it notices that its connections are gone.
 *
 * Functions that can fail return a dlpool_result: DLPOOL_OK (0), or the error. Each block names the errors that it can
 * give, without their prefix DLPOOL_E_; INTERNAL and MEMORY are possible everywhere. dlpool_error() then has one
 * sentence for the user. Options, their texts and dlpool_object are copied: they need not outlive the call; what `user`
 * points to must exist until the directory is closed, or the member destroyed. The library prints nothing, and never
 * exits. It starts a thread for a directory, in which all signals are blocked, and none for members and clients.
 *
 * A child of fork() has its parent's sockets, so that what it sent would be taken for the parent's. It may only close
 * what the parent has opened, which touches nothing of the parent and frees nothing in the child; all other calls are
 * refused at once (STATE; the port is -1, and dlpool_member_leave does nothing). It may open others of its own.
 */
#ifndef DLPOOL_H
#define DLPOOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLPOOL_API_VERSION 1
#define DLPOOL_SLOTS 1024
#define DLPOOL_MAX_KEY 1024                  /* bytes */
#define DLPOOL_MAX_BYTES ((size_t)64 << 20)  /* of an update, a read or an answer */
#define DLPOOL_MAX_STATE ((size_t)128 << 20) /* of one slot, as saved, with the answers that it keeps */

typedef struct dlpool_directory dlpool_directory;
typedef struct dlpool_member dlpool_member;
typedef struct dlpool_client dlpool_client;
typedef struct dlpool_bytes dlpool_bytes; /* what an object's function answers, until it returns; see dlpool_put */

/* Values are part of the ABI. */
typedef enum dlpool_result {
  DLPOOL_OK = 0,
  DLPOOL_E_INVALID = 1, /* an argument is malformed or out of range; nothing was done */
  DLPOOL_E_OBJECT = 2,  /* the object refused; the sentence is its own. Its state is as it was */
  DLPOOL_E_LOST = 3,    /* state of this slot was lost with members that were killed: start from a checkpoint */
  DLPOOL_E_TIMEOUT = 4, /* no answer in time. Whether the update was applied is not known: the client can only be
                           closed */
  DLPOOL_E_PEER = 5,    /* the directory is gone, or does not have this secret */
  DLPOOL_E_DENIED = 6,  /* the file of the secret is no file of this user's that nobody else may read or change */
  DLPOOL_E_MEMORY = 7,
  DLPOOL_E_STATE = 8,    /* called too late: see the function; or in a child of fork() */
  DLPOOL_E_INTERNAL = 9, /* a fault of the library */
  DLPOOL_E_FULL = 10,    /* 8,192 other clients have updated this slot and were not closed */
  DLPOOL_E_IO = 11       /* an operating system call failed */
} dlpool_result;

/* dlpool_error: tells of the last error of this thread, in one sentence.
 *   Returns  "" if there was none; valid until the thread's next call
 *   Threads  any
 */
const char* dlpool_error(void);

/* dlpool_version: tells the version of the library.
 *   Returns  "0.2.0"; static
 *   Threads  any
 */
const char* dlpool_version(void);

/* dlpool_slot: tells in which slot a key is.
 *   key      of key_size bytes, 0 to DLPOOL_MAX_KEY
 *   Returns  0 to DLPOOL_SLOTS - 1
 *   Threads  any
 */
int dlpool_slot(const void* key, size_t key_size);

/* The directory. */

typedef struct dlpool_directory_options {
  size_t struct_size;      /* sizeof(dlpool_directory_options) */
  const char* listen;      /* numeric address; NULL: 127.0.0.1. For members on other hosts: that of this host's network,
                              or 0.0.0.0 */
  int port;                /* 0: any */
  const char* secret_file; /* a new secret is put there, mode 0600, for members and clients of the same user.
                              NULL: from the environment, DL_POOL_SECRET */
  int min, max;            /* members, up to 4,096. min 0: 1, max 0: min. The slots are divided when min have joined */
  int without_copies;      /* 1: no copies: half the work, and a member that is killed loses its slots */
  int fixed;               /* 1: what members want does not change the size, which stays min */
  /* Called when the size that the pool should have, or the number of members that it has, has changed, also to be
   * equal: start what is missing. Those that are too many are told to leave by the directory itself, the youngest
   * first. Called in the directory's thread, which answers nobody meanwhile, so it must not block; may call nothing of
   * the library. NULL: members come and go as they like. */
  void (*size)(void* user, int wanted, int present);
  void* user;
} dlpool_directory_options;

/* What a directory knows, for people and tests. */
typedef struct dlpool_facts {
  size_t struct_size;
  int members;      /* that are not about to leave */
  int wanted;       /* the size that was decided */
  int unsettled;    /* slots that are to move or to be copied */
  int lost;         /* slots whose state is lost */
  uint64_t moved;   /* slots that were given from one member to another, since the beginning */
  uint64_t version; /* of the table */
} dlpool_facts;

/* dlpool_directory_open: starts a directory in a thread of its own.
 *   options  copied; what `user` points to is not
 *   out      on success the directory, to be closed by dlpool_directory_close; on error NULL
 *   Errors   INVALID, DENIED, IO (it cannot listen, or cannot write the secret)
 *   Threads  any
 */
dlpool_result dlpool_directory_open(const dlpool_directory_options* options, dlpool_directory** out);
/* dlpool_directory_port: tells the port at which the directory listens.
 *   Returns  -1 if directory is NULL, and in a child of fork()
 *   Threads  any
 */
int dlpool_directory_port(const dlpool_directory* directory);

/* dlpool_directory_facts: tells what the directory knows at this moment.
 *   facts    out; its struct_size is set by the caller
 *   Errors   INVALID
 *   Threads  any
 */
dlpool_result dlpool_directory_facts(dlpool_directory* directory, dlpool_facts* facts);

/* dlpool_directory_close: ends the pool. Members end with DLPOOL_OK, and what they hold is gone. Waits for them, for 2
 * seconds at most. Never fails.
 *   directory  may be NULL
 *   Threads    one, when no other uses the directory
 */
void dlpool_directory_close(dlpool_directory* directory);

/* Members. */

/* What a member has measured since it asked `wanted` the last time. */
typedef struct dlpool_load {
  size_t struct_size;
  int members;         /* that the pool has */
  int queued;          /* the most calls of clients that were found waiting at once */
  double seconds;      /* for which the rest was measured, about 0.2 */
  double busy_seconds; /* of them in apply and read, also for copies */
  double cpu_seconds;  /* CPU time of this process */
  uint64_t updates;    /* that were carried out, also for copies */
  uint64_t reads;
} dlpool_load;

/* What a function of the object returns if it has failed as the same call of a copy would not, such as for want of
 * memory: this member ends, as if it had been killed, and nobody is answered. */
#define DLPOOL_END_MEMBER INT32_MIN

/* dlpool_put: appends to what a function of the object answers.
 *   answer   that the function was given
 *   data     of size bytes; copied
 *   Errors   MEMORY: the function has failed then, whatever it returns
 *   Threads  that of the function
 */
dlpool_result dlpool_put(dlpool_bytes* answer, const void* data, size_t size);

/* The object. All functions are called from the thread that called dlpool_member_serve, one at a time; keys, bytes and
 * states that they are given exist until they return. They return 0, DLPOOL_END_MEMBER, or anything else for a failure,
 * in which case the answer is a sentence that says why. */
typedef struct dlpool_object {
  size_t struct_size;
  void* user;
  /* Changes the state of one key. Owner and copy each carry it out, in the same order, so that what it does and answers
   * may depend on nothing but the state of the slot and these bytes: no clock, no random numbers. Answers are kept
   * until the client's next update of the slot, so they should be short. A failure leaves the state as it was.
   * Where an update was carried out and its answer has more than DLPOOL_MAX_BYTES, or there is no memory for it,
   * this member ends. */
  int (*apply)(void* user, int slot, const void* key, size_t key_size, const void* bytes, size_t size,
               dlpool_bytes* answer);
  /* Changes nothing. NULL: reads are refused. */
  int (*read)(void* user, int slot, const void* key, size_t key_size, const void* bytes, size_t size,
              dlpool_bytes* answer);
  /* All keys of a slot as bytes, and back. Where save fails, or makes more than DLPOOL_MAX_STATE, the slot stays at
   * this member, which serves it on without the copy that was to be made; that is tried again every 10 seconds. If load
   * fails this member ends, as if it had been killed. */
  int (*save)(void* user, int slot, dlpool_bytes* state);
  int (*load)(void* user, int slot, const void* state, size_t size, dlpool_bytes* why);
  void (*drop)(void* user, int slot); /* forgets all keys of the slot */
  /* How many members the pool should have, judged from this object's own state. The directory asks all members five
   * times a second; dlpool(3) has the rule by which it decides. DLPOOL_END_MEMBER ends this member; else less
   * than 1 counts as 1, and more than 4,096 as 4,096. NULL: as many as there are. */
  int (*wanted)(void* user, const dlpool_load* load);
} dlpool_object;

/* Options of members and clients. */
typedef struct dlpool_options {
  size_t struct_size;
  const char* directory; /* HOST:PORT. NULL: from the environment, DL_POOL. A member listens at that address of its host
                            from which it reaches the directory: one for which this is 127.0.0.1 cannot be reached
                            by members and clients on other hosts, although its directory can */
  const char* secret_file; /* NULL: from the environment, DL_POOL_SECRET */
  double timeout_s;        /* of clients: longest wait of a call. 0: 60. At most 86400 */
} dlpool_options;

/* dlpool_member_create: makes a member, which joins when it serves. Looks the directory's host up.
 *   options  NULL: all from the environment
 *   object   what it serves; copied, but for what `user` points to
 *   out      on success the member, to be destroyed by dlpool_member_destroy; on error NULL
 *   Errors   INVALID, DENIED, IO
 *   Threads  any
 */
dlpool_result dlpool_member_create(const dlpool_options* options, const dlpool_object* object, dlpool_member** out);

/* dlpool_member_serve: serves until the member may end: because it was told to leave, or dlpool_member_leave was
 * called, and its slots have moved; or because the pool was closed.
 *   Errors   INVALID, PEER (also if it cannot listen), OBJECT (it has failed), STATE (it has served already)
 *   Threads  one; the object's functions are called in it
 */
dlpool_result dlpool_member_serve(dlpool_member* member);

/* dlpool_member_leave: asks to leave. The last member stays until another has joined. Never fails.
 *   member   may be NULL
 *   Threads  any; may be called in a signal handler
 */
void dlpool_member_leave(dlpool_member* member);

/* dlpool_member_destroy: frees a member. Never fails.
 *   member   may be NULL
 *   Threads  one, not while it serves
 */
void dlpool_member_destroy(dlpool_member* member);

/* Clients. One thread at a time for each client. */

typedef struct dlpool_call {
  int read; /* 0: an update */
  const void* key;
  size_t key_size;
  const void* bytes;
  size_t size;
  dlpool_result result; /* out: OK, OBJECT, LOST, FULL or INTERNAL (a member did not understand it); what
                           dlpool_call_many returns if that is any other error */
  const void* answer;   /* out: of OBJECT the sentence. Valid until the client's next call, or until it is closed */
  size_t answer_size;   /* out */
} dlpool_call;

/* dlpool_client_open: makes a client. Looks the directory's host up, and does not connect yet.
 *   options  NULL: all from the environment
 *   out      on success the client, to be closed by dlpool_client_close; on error NULL
 *   Errors   INVALID, DENIED, IO
 *   Threads  any
 */
dlpool_result dlpool_client_open(const dlpool_options* options, dlpool_client** out);

/* dlpool_call_many: carries calls out, those of different slots at the same time. Waits where the pool has no members
 * yet, where slots move, and where the directory cannot be reached.
 *   calls    count of them, each with its result afterwards; what they point to must exist until this returns
 *   Returns  OK if all were carried out, else the first error
 *   Errors   INVALID, OBJECT, LOST, FULL, TIMEOUT, STATE (an earlier call ended with TIMEOUT or MEMORY)
 *   Threads  one at a time for each client
 */
dlpool_result dlpool_call_many(dlpool_client* client, dlpool_call* calls, size_t count);

/* dlpool_client_close: closes a client. The pool forgets it, which takes one message for each slot that it has updated,
 * and 2 seconds at most. Never fails.
 *   client   may be NULL
 *   Threads  one
 */
void dlpool_client_close(dlpool_client* client);

#ifdef __cplusplus
}
#endif
#endif /* DLPOOL_H */
