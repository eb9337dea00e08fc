/* simulated NCCL */
#define NCCL_MAJOR @MAJOR@
#define NCCL_VERSION_CODE @CODE@
