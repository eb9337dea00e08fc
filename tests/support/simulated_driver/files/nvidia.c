// A simulated driver: it has the name and the version of NVIDIA's, and drives nothing.
#include <linux/errno.h>
#include <linux/module.h>

static int __init simulated_init(void)
{
	return -ENODEV;
}

static void __exit simulated_exit(void)
{
}

module_init(simulated_init);
module_exit(simulated_exit);
MODULE_DESCRIPTION("simulated NVIDIA driver");
MODULE_LICENSE("@LICENSE@");
MODULE_VERSION("@VERSION@");
