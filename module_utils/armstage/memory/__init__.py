"""What memory holds, whether dropping the page cache can help, and the dropping itself."""
