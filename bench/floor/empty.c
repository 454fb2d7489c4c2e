/* The least a static program can do: what exec, exit and reaping cost before a program has said anything. */
int main(void)
{
    return 0;
}
